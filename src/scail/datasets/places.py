"""Where data sets are looked for: in a folder of them (`SCAIL_DATA`), then in the Hub's caches. Nothing is fetched."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from scail.datasets.catalog import DATASETS

_EXTRA = "pip install 'scail[datasets]'"


class NotHere(ValueError):
    """A data set that is not on this machine: how to get it."""


def data_dir() -> Path:
    """The folder of data sets: `SCAIL_DATA`, or `data`."""
    return Path(os.environ.get("SCAIL_DATA") or "data")


def own_folder(name: str) -> Path | None:
    """The folder of this name among one's data sets."""
    place = data_dir() / name
    return place if place.is_dir() else None


def hub_folder(repository: str) -> Path | None:
    """A data set of the Hub, as it was downloaded: in the folder of data sets or in the Hub's own cache."""
    if found := own_folder(repository) or own_folder(repository.rpartition("/")[2]):
        return found
    if not reads_tables():
        return None
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(repository, repo_type="dataset", local_files_only=True))
    except LocalEntryNotFoundError:
        return None
    except HFValidationError as error:
        raise ValueError(f"hf:{repository}: {error}; expected hf:owner/name") from error


def reads_tables() -> bool:
    """Whether the libraries are here that read Parquet and Arrow files."""
    return all(find_spec(name) is not None for name in ("datasets", "pyarrow"))


def check_tables(place: str | Path) -> None:
    """An error where they are not."""
    if not reads_tables():
        raise ValueError(f"{place}: Parquet and Arrow files need the extra `datasets`: {_EXTRA}")


def missing(name: str) -> NotHere:
    """What to say of a data set that is not here."""
    place = data_dir() / name
    also = "" if reads_tables() else f". The Hub's data sets also need the extra `datasets`: {_EXTRA}"
    if name.startswith("hf:"):
        repository = name.removeprefix("hf:")
        return NotHere(
            f"{name}: neither in {data_dir() / repository} nor in the Hub's cache, and nothing is fetched unasked: "
            f"hf download {repository} --repo-type dataset{also}"
        )
    row = DATASETS[name]
    assert row.how_to_get is not None, f"{name} is embedded: it cannot be missing"
    how = row.how_to_get.format(place=place)
    return NotHere(
        f"{name}: not in {place}{' nor in the cache of the Hub' if row.hub else ''}. To get it: {how}. "
        f"SCAIL_DATA names the folder that holds data sets{also if row.hub else ''}"
    )
