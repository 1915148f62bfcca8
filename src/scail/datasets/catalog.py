"""The names of the data sets and what they are: light, so that help and listings need no torch."""

from __future__ import annotations

DATASETS: dict[str, str] = {
    "glyphs": "characters of several scripts, drawn here from matplotlib's fonts (embedded; 100 classes, up to 134)",
    "digits": "scikit-learn's scans of handwritten digits, 8 x 8 pixels (embedded; 10 classes)",
    "cifar100": "100 classes of 32 x 32 photographs (Parquet files of the Hub, or the original archive)",
    "ilsvrc": "ImageNet's 1000 classes of photographs, iCaRL's order and split (train/, val/, the devkit; or the Hub)",
    "vggface2": "faces: the 1000 identities with the most images (train/; see `scail prepare vggface2`)",
    "landmarks": "Google Landmarks, version 1: the 1000 largest classes (train.csv and images)",
}
OTHERS: dict[str, str] = {
    "NAME": "a folder of this name in SCAIL_DATA, of one of the kinds below",
    "hf:owner/name": "a data set of the Hugging Face hub, after: hf download owner/name --repo-type dataset",
    "PATH": "a folder with a sub-folder of images per class, or train/ and test/ of such; a folder of Parquet files as "
    "on the hub; what `scail prepare` made; a file of `path label` lines, or a manifest",
}
