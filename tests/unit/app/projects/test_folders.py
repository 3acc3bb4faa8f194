"""Folders to choose from: what is in them is counted, and a typed path is completed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from closecall.app.projects import folders
from closecall.app.projects.folders import Contents, look_into, offer, usual_folders
from closecall.core.sources import listing


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Folders with images, other files, hidden ones and links."""
    for name in ("a/1.png", "a/2.JPG", "a/b/3.tif", "a/note.txt", ".hidden/4.png", "c/.5.png", "c/six"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "link.png").symlink_to(tmp_path / "a" / "1.png")
    (tmp_path / "linked").symlink_to(tmp_path / "a")
    return tmp_path


def test_the_images_are_those_that_a_pool_would_have(data: Path) -> None:
    """The same rules hold as for listing them; folders with images are counted, too."""
    assert look_into(data, 60) == Contents(images=3, left_out=0, folders=2, is_all=True)
    assert len(listing.list_files(data).paths) == 3
    assert look_into(data, 60).in_words() == "3 images in 2 folders."
    assert look_into(data / "a" / "b", 60).in_words() == "1 image."
    assert look_into(data / "c", 60).in_words() == "No images here."
    assert look_into(data / "nowhere", 60).in_words() == "No images here."


def test_images_that_need_the_extra_are_named(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not counted among the others."""
    (data / "a" / "7.HEIC").write_bytes(b"x")
    monkeypatch.setattr(folders, "can_read_heif", lambda: False)
    said = look_into(data / "a", 60).in_words()
    assert said.startswith("3 images in 2 folders. 1 HEIC image is left out: it needs pip install")
    monkeypatch.setattr(folders, "can_read_heif", lambda: True)
    assert look_into(data / "a", 60).in_words() == "4 images in 2 folders."


def test_counting_ends_in_time(data: Path) -> None:
    """Then the number is a lower limit, and the sentence says so."""
    assert not look_into(data, 0.0).is_all
    assert Contents(2_000, 0, 3, is_all=False).in_words() == "More than 2,000 images."
    assert "No images so far" in Contents(0, 0, 0, is_all=False).in_words()


def test_a_path_is_completed(data: Path) -> None:
    """Nothing typed: recent folders; a folder: what is in it; the beginning of a name: what begins so."""
    (data / "Alpha").mkdir()
    assert offer(" ", ["/x", "/y"]).folders == ("/x", "/y")
    assert [Path(found).name for found in offer(str(data), []).folders] == ["a", "Alpha", "c", "linked"]
    assert offer(f"{data}/AL", []).folders == (str(data / "Alpha"),)
    assert offer(f"{data}/zzz", []) == folders.Offer("", ())


@pytest.mark.parametrize("typed", ["relative", "/no/such/place", "/a\0b", "/" + "x" * 5000, "s3://bucket"])
def test_what_is_no_path_offers_nothing(typed: str) -> None:
    """Whatever it is, it is no error while it is typed."""
    assert offer(typed, ["/x"]).folders == ()


def test_names_from_right_to_left_are_isolated(tmp_path: Path) -> None:
    """Or the words that follow them in the title would be drawn among them."""
    (tmp_path / "צמחים" / "עלים").mkdir(parents=True)
    assert offer(str(tmp_path / "צמחים"), []).title == f"Folders in \u2068{tmp_path / 'צמחים'}\u2069"
    assert offer(str(tmp_path / "צמ"), []).title == f"Folders in {tmp_path} that begin with “\u2068צמ\u2069”"


def test_a_folder_that_cannot_be_read_offers_nothing(data: Path) -> None:
    """It is not offered either, nor does it stop the count."""
    if os.geteuid() == 0:
        pytest.skip("everything can be read by this user")
    (data / "a").chmod(0)
    assert offer(str(data / "a"), []).folders == ()
    assert str(data / "a") not in offer(str(data), []).folders
    assert look_into(data, 60).images == 0
    (data / "a").chmod(0o700)


def test_the_usual_folders_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures comes first."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert usual_folders() == [str(tmp_path)]
    (tmp_path / "Pictures").mkdir()
    assert usual_folders() == [str(tmp_path / "Pictures"), str(tmp_path)]
