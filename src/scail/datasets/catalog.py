"""The names of the data sets and what they are: light, so that help and listings need no torch."""

from __future__ import annotations

DATASETS: dict[str, str] = {
    "glyphs": "characters of several scripts, drawn here from matplotlib's fonts (embedded; 100 classes, up to 134)",
    "digits": "scikit-learn's scans of handwritten digits, 8 x 8 pixels (embedded; 10 classes)",
    "cifar100": "100 classes of 32 x 32 photographs (Parquet files in SCAIL_DATA/cifar100)",
}
OWN_FILES = (
    "a folder with a sub-folder of images per class, or train/ and test/ of such; or a file of `path label` lines"
)
