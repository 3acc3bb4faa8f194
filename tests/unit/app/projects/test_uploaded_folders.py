"""An uploaded folder is stored whole beside the projects, and nothing leaves it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import Image

from closecall.app.projects import uploaded_folders
from closecall.app.projects.folder_classes import classes_of_paths
from closecall.app.projects.uploaded_folders import UPLOAD, store_folder
from closecall.app.sessions.new_project import NewProject
from closecall.core.errors import InputError
from tests.projects import open_workspace


def picture(shade: int) -> bytes:
    held = io.BytesIO()
    Image.effect_noise((16, 16), 20 + shade).save(held, "png")
    return held.getvalue()


def stored(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_paths_are_kept_inside_the_folder(tmp_path: Path) -> None:
    """Parts that lead out or hide are left out; two files of one path are both kept."""
    files = [
        ("pets/cat/1.png", b"1"),
        ("../../etc/2.png", b"2"),
        ("/abs/3.png", b"3"),
        ("a/.hidden/4.png", b"4"),
        ("..", b"5"),
        ("pets/cat/1.png", b"6"),
        ("./7\n.png", b"7"),
    ]
    folder = store_folder(tmp_path, "Is it a cat?", files)
    assert folder == tmp_path / "images" / "is-it-a-cat"
    assert stored(folder) == {
        "pets/cat/1.png": b"1",
        "etc/2.png": b"2",
        "abs/3.png": b"3",
        "a/hidden/4.png": b"4",
        "image": b"5",
        "pets/cat/1 2.png": b"6",
        "7_.png": b"7",
    }
    assert store_folder(tmp_path, "Is it a cat?", files[:1]).name == "is-it-a-cat-2"
    assert {path.name for path in tmp_path.iterdir()} == {"images"}


def test_the_ends_of_long_names_are_kept(tmp_path: Path) -> None:
    """A system limits the bytes of a name, of which a letter may have several."""
    names = [100 * "猫" + ".png", "x" + 100 * "犬" + ".png", 300 * "a" + ".png"]
    folder = store_folder(tmp_path, "x", [(name, name.encode()) for name in names])
    found = stored(folder)
    assert sorted(found.values()) == sorted(name.encode() for name in names)
    for name, content in found.items():
        assert content.decode().endswith(name)
        assert len(name.encode()) > 190


def test_a_folder_that_cannot_be_stored_is_one_sentence(tmp_path: Path) -> None:
    """And leaves nothing."""
    deep = "/".join(50 * ["d" * 150])
    with pytest.raises(InputError, match=r"The images can't be stored in .*images: File name too long"):
        store_folder(tmp_path, "x", [("a.png", b"1"), (f"{deep}/b.png", b"2")])
    assert list((tmp_path / "images").iterdir()) == []


def test_too_much_is_refused_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence says what to do instead."""
    monkeypatch.setattr(uploaded_folders, "MOST_FILES", 1)
    with pytest.raises(InputError, match="1 files and 2 GB: copy a larger one to the machine"):
        store_folder(tmp_path, "x", [("a.png", b""), ("b.png", b"")])
    with pytest.raises(InputError, match="Choose the images first"):
        store_folder(tmp_path, "x", [])
    assert list(tmp_path.iterdir()) == []


def test_an_upload_becomes_a_project(tmp_path: Path) -> None:
    """Its folder is offered again; if the project can't be made, the images are gone, too."""
    files = [(f"pets/{kind}/{i}.png", picture(i)) for kind in ("cat", "dog") for i in range(20)]
    assert classes_of_paths([name for name, _ in files]) == ("cat", "dog")
    with open_workspace(tmp_path) as workspace:
        with pytest.raises(InputError, match="no class 'fox'"):
            workspace.create(NewProject(UPLOAD, "Is it a fox?", "fox", upload=files))
        assert list((tmp_path / "images").iterdir()) == []
        key = workspace.create(NewProject(f"edges:{UPLOAD}", "Is it a cat?", upload=files))
        project = workspace.project(key)
        assert project.concepts()[0].positive_class == "cat"
        assert stored(tmp_path / "images" / "is-it-a-cat") == dict(files)
        other = workspace.create(NewProject(str(tmp_path / "images" / "is-it-a-cat"), "Is it big?"))
        assert workspace.recent_folders("ada") == [str(tmp_path / "images" / "is-it-a-cat")]
        assert set(workspace.served_keys()) == {key, other}
