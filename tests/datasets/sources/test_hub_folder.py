"""Folders in the Hub's layout that nobody vouches for: nothing leads out of them, and every row is whole."""

from __future__ import annotations

from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from scail.datasets.sources.hub_folder import check_folder, inside, labels_of

PICTURE = {"bytes": b"picture", "path": "a.png"}


def column(*images: object) -> pyarrow.ChunkedArray:
    kind = pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])
    return pyarrow.chunked_array([pyarrow.array(images, kind)])


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../secret.png", "inner/../../secret.png", "link/secret.png", "loop", "a\0b"]
)
def test_images_outside_the_folder_are_not_read(tmp_path, path):
    folder = tmp_path / "set"
    (folder / "inner").mkdir(parents=True)
    (tmp_path / "secret.png").write_text("mine")
    (folder / "link").symlink_to(tmp_path)
    (folder / "loop").symlink_to(folder / "loop")
    with pytest.raises(ValueError, match=r"^row 1: .*(is not in the data set's folder; it is not read|null|Symlink)"):
        inside(column(PICTURE, {"bytes": None, "path": path}), [folder])


def test_images_inside_are_found_and_rows_without_one_are_named(tmp_path):
    (tmp_path / "a.png").write_text("picture")
    found = inside(column(PICTURE, {"bytes": None, "path": "a.png"}), [tmp_path])
    assert found.to_pylist()[1] == {"bytes": None, "path": str(tmp_path / "a.png")}
    for nothing in (None, {"bytes": None, "path": None}, {"bytes": None, "path": ""}):
        with pytest.raises(ValueError, match="row 1 has no image"):
            inside(column(PICTURE, nothing), [tmp_path])
    with pytest.raises(ValueError, match="expected bytes and path"):
        inside(pyarrow.chunked_array([[1, 2]]), [tmp_path])


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([0, None], "row 1 has no label"), ([0, -1], "row 1 has no label"), ([0, -2], "row 1 has the label -2, expec"),
        ([0, 2], "row 1 has the label 2, expected 0 to 1"), ([[0], [1]], "expected a number or a text for each image"),
    ],
)  # fmt: skip
def test_labels_that_are_none_are_named(values, said):
    with pytest.raises(ValueError, match=said):
        labels_of(pyarrow.chunked_array([values]), ["cat", "dog"])


@pytest.mark.parametrize("pattern", ["/etc/*", "../x/*.parquet", "https://evil.example/x", "~/x", "zip://a::b"])
def test_a_card_that_names_files_elsewhere(tmp_path, pattern):
    (tmp_path / "README.md").write_text(f"---\nconfigs:\n- config_name: a\n  data_files: {pattern!r}\n---\n")
    with pytest.raises(ValueError, match=r"README\.md: names .*, which is not in its folder; nothing was read"):
        check_folder(tmp_path)


def test_tables_that_would_fill_the_disk_and_files_that_are_none(tmp_path, monkeypatch):
    monkeypatch.setattr("scail.datasets.sources.hub_folder._SMALL", 2**20)
    bomb = pyarrow.table({"image": pyarrow.array([b"\0" * 2**20] * 30)})
    parquet.write_table(bomb, tmp_path / "a.parquet", compression="zstd", use_dictionary=False)
    assert (tmp_path / "a.parquet").stat().st_size < 2**17
    with pytest.raises(ValueError, match=r"a\.parquet: 30 MiB unpacked, 200 times its size: not taken for pictures"):
        check_folder(tmp_path)
    Path(tmp_path / "a.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(ValueError, match=r"a\.parquet: cannot be read as Parquet"):
        check_folder(tmp_path)
