"""What lies in folders of classes and is not taken, in words: nothing is left out in silence."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from scail.datasets.images.decode import HEIF, READ_BY_PILLOW
from scail.datasets.scan import is_image

_SYSTEM = {"thumbs.db", "desktop.ini", "ehthumbs.db"}
_MOST = 5  # names on a line


@dataclass
class Omitted:
    """Files of class folders that are no images, and sub-folders whose images count as those of their class."""

    endings: Counter[str] = field(default_factory=Counter)
    first: str = ""
    without: dict[str, str] = field(default_factory=dict)
    """Class folders of which nothing is taken, and an ending of what is in them."""
    hidden: int = 0
    """Files that systems leave behind."""
    nested: dict[str, set[str]] = field(default_factory=dict)
    outside: list[str] = field(default_factory=list)
    """Images that lie in no class folder."""
    invisible: list[str] = field(default_factory=list)
    """Images that are hidden, or lie in a hidden folder."""
    folders: list[str] = field(default_factory=list)
    """The names of all class folders."""

    def takes(self, path: Path, name: str, folder: Path) -> bool:
        """Whether this file of a class is an image; what is not is written down."""
        if is_image(path.name):
            if path.parent != folder:
                self.nested.setdefault(name, set()).add(path.relative_to(folder).parts[0])
            return True
        if path.name.startswith(".") or path.name.lower() in _SYSTEM:
            if path.name.startswith("._") or path.name.lower() in _SYSTEM:
                self.hidden += 1
            elif is_image(path.name.lstrip(".")):
                self.invisible.append(str(path))
        elif path.is_file():
            self.endings[path.suffix.lower()] += 1
            self.first = self.first or str(path)
            self.without.setdefault(name, path.suffix.lower())
        return False

    def notes(self, taken: set[str], choice: bool = False) -> tuple[str, ...]:
        """All of it in words; `taken`: the classes of which there are images. `choice`: there is --sub-folders."""
        hint = "; --sub-folders classes makes them classes of their own" if choice else ""
        found = []
        known = taken | {name.partition("/")[0] for name in taken}
        with_others = {name.partition("/")[0] for name in self.without}
        bare = {name: "" for name in self.folders if name not in known | with_others}
        if lost := {name: ending for name, ending in (self.without | bare).items() if name not in known}:
            named = ", ".join(f"{name} ({ending})" if ending else name for name, ending in [*lost.items()][:_MOST])
            found.append(f"{len(lost)} class folder(s) have no image that can be read, and are left out: {named}")
        if self.endings:
            named = ", ".join(
                f"{count} {ending or 'without an ending'}" for ending, count in self.endings.most_common(_MOST)
            )
            found.append(f"{self.endings.total()} file(s) are left out, which are not images by their endings: "
                         f"{named}; the first: {self.first}{remedy(self.endings)}")  # fmt: skip
        for name, inside in [*self.nested.items()][:_MOST]:
            named = ", ".join(sorted(inside)[:_MOST])
            found.append(f"images in sub-folders of {name} ({named}) count as {name}{hint}")
        if self.outside:
            found.append(f"{len(self.outside)} image(s) outside the class folders are left out; the first: "
                         f"{self.outside[0]}")  # fmt: skip
        if self.invisible:
            found.append(f"{len(self.invisible)} hidden image(s) are left out (a name begins with a dot); the first: "
                         f"{self.invisible[0]}")  # fmt: skip
        if self.hidden:
            found.append(f"{self.hidden} file(s) that the system left there (._*, Thumbs.db) are ignored")
        return tuple(found)


def remedy(endings: Counter[str]) -> str:
    """What to install to read files with these endings; empty where nothing helps."""
    if any(ending in HEIF for ending in endings):
        return ". To read .heic and .heif: pip install 'scail[heif]'"
    return ". To read .avif: pip install 'pillow>=11.3'" if any(e in READ_BY_PILLOW for e in endings) else ""


def unread_in(folder: Path) -> str:
    """Of a folder of images, in words, what in it is not one; empty where all are."""
    found = Omitted()
    for path in sorted(folder.rglob("*")):
        found.takes(path, "", path.parent)
    return "; ".join(found.notes({""}))
