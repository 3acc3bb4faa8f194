from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from closecall.core.errors import InputError
from closecall.core.features import compute
from closecall.core.pool.build import build
from closecall.core.sources import Folder, open_source
from closecall.core.sources.folder import LIST_FILE


def put(root: Path, *paths: str, colour: str = "red") -> None:
    """Small images at these paths."""
    for path in paths:
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (6, 4), colour).save(file)


def names(source: Folder) -> list[str]:
    """All items' names, in their order."""
    return [source.name(item) for item in range(len(source))]


def test_images_are_found_at_any_depth_and_nothing_else_is(tmp_path: Path) -> None:
    """Only visible files with an image's extension count, in capitals or not."""
    put(tmp_path, "a.png", "b/c/d/e.JPG", "b/f.Tiff", ".hidden.png", ".cache/g.png", "b/.h/i.png")
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "b" / "table.csv").write_text("x")
    assert sorted(names(Folder(tmp_path))) == ["a.png", "b/c/d/e.JPG", "b/f.Tiff"]


def test_the_order_is_that_of_the_names_and_mixes_classes(tmp_path: Path) -> None:
    """Two copies of a folder, written in opposite orders, have one order; its beginning holds every class."""
    paths = [f"{kind}/{i:03}.png" for kind in ("ant", "bee", "cow") for i in range(40)]
    put(tmp_path / "one", *paths)
    put(tmp_path / "two", *reversed(paths))
    one, two = Folder(tmp_path / "one"), Folder(tmp_path / "two")
    assert names(one) == names(two)
    assert names(one) != sorted(names(one))
    assert set(one.truth(np.arange(20))) == {0, 1, 2}
    assert names(Folder(tmp_path / "one", by_path=True)) == paths


def test_the_order_by_path_is_that_of_sorted_paths(tmp_path: Path) -> None:
    """Embeddings computed over sorted(Path.rglob) meet their images."""
    put(tmp_path, "a/b.png", "a-b/c.png", "a.png", "B/a.png", "a/b/c.png", "z.png")
    wanted = [path.relative_to(tmp_path).as_posix() for path in sorted(tmp_path.rglob("*.png"))]
    assert names(Folder(tmp_path, by_path=True)) == wanted


def test_unreadable_files_are_reported_and_the_rest_goes_on(tmp_path: Path) -> None:
    """Fake, empty and truncated files each become a problem with their name and a reason."""
    put(tmp_path, "fine.png", "also/fine.jpg")
    (tmp_path / "fake.jpg").write_text("this is no image")
    (tmp_path / "empty.png").touch()
    Image.effect_noise((50, 50), 50).save(tmp_path / "cut.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "cut.png").read_bytes()[:900])
    source = Folder(tmp_path)
    X, ids, problems = compute(source, np.arange(5))
    assert len(X) == len(ids) == 2
    reasons = {problem.name: problem.reason for problem in problems}
    assert set(reasons) == {"fake.jpg", "empty.png", "cut.png"}
    assert "empty" in reasons["empty.png"]
    assert "not an image" in reasons["fake.jpg"]
    assert "damaged or incomplete" in reasons["cut.png"]
    for problem in problems:
        with pytest.raises(InputError, match=problem.name):
            source.image(problem.item, 32)


def test_links_are_not_followed(tmp_path: Path) -> None:
    """A link to a secret, a link to a folder outside and a loop of links give no items."""
    put(tmp_path, "outside/secret.png", "inside/own.png")
    inside = tmp_path / "inside"
    (inside / "stolen.png").symlink_to(tmp_path / "outside" / "secret.png")
    (inside / "elsewhere").symlink_to(tmp_path / "outside")
    (inside / "loop").symlink_to(inside)
    assert names(Folder(inside)) == ["own.png"]


def test_a_file_that_became_a_link_is_not_read(tmp_path: Path) -> None:
    """A link put in an image's place after the list was made does not lead out of the folder."""
    put(tmp_path, "inside/a.png", "inside/b/c.png", "outside/c.png")
    source = Folder(tmp_path / "inside", by_path=True)
    (tmp_path / "inside" / "a.png").unlink()
    (tmp_path / "inside" / "a.png").symlink_to(tmp_path / "outside" / "c.png")
    (tmp_path / "inside" / "b").rename(tmp_path / "b")
    (tmp_path / "inside" / "b").symlink_to(tmp_path / "outside")
    _, problems = source.grey(np.array([0, 1]))
    assert [problem.reason for problem in problems] == ["it is a link that leads outside the folder"] * 2
    with pytest.raises(InputError, match="leads outside the folder"):
        source.image(1, 32)


def test_a_folder_reached_through_a_link_is_read(tmp_path: Path) -> None:
    """The folder that the user names may itself be a link."""
    put(tmp_path, "real/a.png")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert Folder(tmp_path / "link").image(0, 32).size == (6, 4)


def test_names_of_any_bytes_are_read_and_shown(tmp_path: Path) -> None:
    """A file name that is no UTF-8 is an item like others, and its name is text."""
    put(tmp_path, "a.png")
    (tmp_path / "a.png").rename(os.fsdecode(os.fsencode(tmp_path) + b"/f\xfcr.png"))
    source = Folder(tmp_path)
    source.save(tmp_path)
    again = open_source(source.spec(), tmp_path)
    assert again.name(0) == "f\N{REPLACEMENT CHARACTER}r.png"
    assert again.image(0, 32).size == (6, 4)


def test_classes_are_the_innermost_names_that_say_something(tmp_path: Path) -> None:
    """Folders such as images or val are passed over; a file with no such folder is of unknown class."""
    put(tmp_path, "train/cat/images/1.png", "val/Dog/2.png", "cat/3.png", "images/4.png", "5.png")
    source = Folder(tmp_path)
    assert source.classes == ("cat", "Dog")
    truth = {source.name(i): int(source.truth(np.array([i]))[0]) for i in range(5)}
    assert truth == {
        "train/cat/images/1.png": 0,
        "val/Dog/2.png": 1,
        "cat/3.png": 0,
        "images/4.png": -1,
        "5.png": -1,
    }


VEHICLES = ("car/1", "bus/1", "train/1")

LAYOUTS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "a train is a vehicle": (VEHICLES, {"car/1": "car", "bus/1": "bus", "train/1": "train"}),
    "in splits": (
        tuple(f"{split}/{path}" for split in ("train", "test") for path in VEHICLES),
        {f"{split}/{path}": path[:-2] for split in ("train", "test") for path in VEHICLES},
    ),
    "with kinds of trains": (
        ("train/steam/1", "train/old/1", "car/1"),
        {"train/steam/1": "steam", "train/old/1": "old", "car/1": "car"},
    ),
    "a test and others": (("test/1", "exam/1"), {"test/1": "test", "exam/1": "exam"}),
    "both beside others": (
        ("train/1", "test/1", "car/1"),
        {"train/1": "train", "test/1": "test", "car/1": "car"},
    ),
    "images and drawings": (("images/1", "drawings/1"), {"images/1": "images", "drawings/1": "drawings"}),
    "the same in splits": (
        ("train/images/1", "train/drawings/1", "val/images/1", "val/drawings/1"),
        {
            "train/images/1": "images",
            "val/images/1": "images",
            "train/drawings/1": "drawings",
            "val/drawings/1": "drawings",
        },
    ),
    "splits alone": (("train/1", "test/1", "Validation/1"), {}),
    "one split alone": (("train/cat/1", "train/dog/1", "2"), {"train/cat/1": "cat", "train/dog/1": "dog"}),
    "splits and what has no class": (
        ("train/cat/1", "train/dog/1", "test/cat/1", "unlabeled/images/1"),
        {"train/cat/1": "cat", "test/cat/1": "cat", "train/dog/1": "dog", "unlabeled/images/1": "unlabeled"},
    ),
    "splits in classes": (
        ("cat/train/1", "cat/test/1", "dog/train/1"),
        {"cat/train/1": "cat", "cat/test/1": "cat", "dog/train/1": "dog"},
    ),
    "containers in classes": (
        ("cat/images/1", "cat/masks/1", "dog/images/1"),
        {"cat/images/1": "cat", "dog/images/1": "dog", "cat/masks/1": "masks"},
    ),
    "containers around classes": (
        ("images/cat/1", "images/dog/1"),
        {"images/cat/1": "cat", "images/dog/1": "dog"},
    ),
    "a dataset below": (
        ("pets/train/cat/1", "pets/train/dog/1", "pets/val/cat/1"),
        {"pets/train/cat/1": "cat", "pets/train/dog/1": "dog", "pets/val/cat/1": "cat"},
    ),
    "nothing but containers": (("images/1", "data/imgs/1", "img/1"), {}),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_a_class_is_judged_among_its_sisters(tmp_path: Path, layout: str) -> None:
    """A folder named train, test or images is a class where those beside it are, and else is for order."""
    paths, wanted = LAYOUTS[layout]
    put(tmp_path, *(f"{path}.png" for path in paths))
    source = Folder(tmp_path)
    truth = dict(zip(names(source), source.truth(np.arange(len(source))).tolist(), strict=True))
    found = {path: source.classes[truth[f"{path}.png"]] for path in paths if truth[f"{path}.png"] >= 0}
    assert found == wanted


def test_a_class_called_test_is_not_what_is_held_out(tmp_path: Path) -> None:
    """Of classes car, train and test a tenth is held out, and not one whole class."""
    put(tmp_path, *[f"{kind}/{i}.png" for kind in ("car", "train", "test") for i in range(20)])
    source = Folder(tmp_path)
    held_out = {source.name(int(i)) for i in source.held_out()}
    assert len(held_out) == 6
    assert not all(name.startswith("test") for name in held_out)


def test_one_class_is_none_and_classes_can_be_declined(tmp_path: Path) -> None:
    """Where all images lie in one folder nothing is known of them, nor where the user says so."""
    put(tmp_path, *[f"holiday/{i}.png" for i in range(30)])
    source = Folder(tmp_path)
    assert source.classes == ()
    assert source.truth(np.arange(30)).tolist() == [-1] * 30
    assert source.held_out().size == 0
    put(tmp_path, *[f"work/{i}.png" for i in range(30)])
    assert Folder(tmp_path).classes == ("holiday", "work")
    assert len(Folder(tmp_path).held_out()) == 6
    declined = Folder(tmp_path, use_classes=False)
    assert declined.classes == ()
    assert declined.held_out().size == 0


def test_wordnet_ids_are_shown_as_words(tmp_path: Path) -> None:
    """words.txt gives names, the first synonym where it is unique and all of them where it is not."""
    put(tmp_path, "train/n01/images/a.JPEG", "train/n02/b.JPEG", "train/n03/c.JPEG", "train/n04/d.JPEG")
    (tmp_path / "words.txt").write_text(
        "n01\ttench, Tinca\nn02\tcrane, bird\nn03\tcrane, machine\nn99\tzebra\n"
    )
    source = Folder(tmp_path, by_path=True)
    assert [source.classes[i] for i in source.truth(np.arange(4))] == [
        "tench",
        "crane, bird",
        "crane, machine",
        "n04",
    ]


@pytest.mark.parametrize("length", [239, 240, 255])
def test_names_of_folders_may_be_as_long_as_the_system_allows(tmp_path: Path, length: int) -> None:
    """A list of classes in such a folder would have too long a name, so there is none."""
    name = length * "a"
    for folder in (name, "b"):
        (tmp_path / folder).mkdir()
        Image.new("L", (9, 9)).save(tmp_path / folder / "1.png")
    assert Folder(tmp_path).classes == (name, "b")


def test_annotations_of_a_split_decide(tmp_path: Path) -> None:
    """val_annotations.txt gives validation images their classes, and they are then held out."""
    put(tmp_path, *[f"train/{kind}/images/{i}.png" for kind in ("n1", "n2") for i in range(5)])
    put(tmp_path, "val/images/v0.png", "val/images/v1.png", "val/images/v2.png")
    (tmp_path / "val" / "val_annotations.txt").write_text("v0.png\tn2\t0\t0\nv1.png\tn1\t0\t0\n")
    source = Folder(tmp_path)
    held_out = source.held_out()
    assert {source.name(int(i)) for i in held_out} == {"val/images/v0.png", "val/images/v1.png"}
    for item in held_out:
        wanted = {"val/images/v0.png": "n2", "val/images/v1.png": "n1"}[source.name(int(item))]
        assert source.classes[source.truth(np.array([item]))[0]] == wanted


def test_the_test_split_is_held_out(tmp_path: Path) -> None:
    """Where there are train and test folders, the test images are held out, and no others."""
    paths = [
        f"{split}/{kind}/{i}.png" for split in ("train", "test", "val") for kind in "ab" for i in range(6)
    ]
    put(tmp_path, *paths)
    source = Folder(tmp_path)
    held_out = source.held_out()
    assert (np.diff(held_out) > 0).all()
    assert {source.name(int(i)) for i in held_out} == {path for path in paths if path.startswith("test")}


def test_otherwise_a_tenth_is_held_out_whatever_the_order(tmp_path: Path) -> None:
    """A tenth of the images of known class, the same ones in every order, and never one of unknown class."""
    put(tmp_path, *[f"{kind}/{i}.png" for kind in ("ant", "bee") for i in range(50)], "unknown.png")
    sources = Folder(tmp_path), Folder(tmp_path, by_path=True)
    chosen = [{source.name(int(i)) for i in source.held_out()} for source in sources]
    assert chosen[0] == chosen[1]
    assert len(chosen[0]) == 10
    assert all((source.truth(source.held_out()) >= 0).all() for source in sources)


def test_a_saved_list_outlives_changes_of_the_folder(tmp_path: Path) -> None:
    """Reopened with its list, a source keeps its items' numbers though files come and go."""
    put(tmp_path / "photos", *[f"{kind}/{i}.png" for kind in "ab" for i in range(8)])
    source = Folder(tmp_path / "photos")
    source.save(tmp_path)
    before = names(source)
    put(tmp_path / "photos", "a/new.png")
    (tmp_path / "photos" / before[3]).unlink()
    again = open_source(source.spec(), tmp_path)
    assert [again.name(i) for i in range(len(again))] == before
    assert (again.truth(np.arange(16)) == source.truth(np.arange(16))).all()
    assert (again.held_out() == source.held_out()).all()
    _, problems = again.grey(np.arange(16))
    assert [(problem.item, problem.reason) for problem in problems] == [(3, "the file no longer exists")]


def test_without_its_list_a_changed_folder_is_noticed(tmp_path: Path) -> None:
    """Reopened without its list, a source is the same or an error, never another in silence."""
    put(tmp_path, "a/1.png", "b/2.png")
    spec = Folder(tmp_path).spec()
    assert open_source(spec).spec() == spec
    (tmp_path / "a" / "1.png").rename(tmp_path / "a" / "3.png")
    with pytest.raises(InputError, match="has changed: it had 2 images"):
        open_source(spec)


def test_a_damaged_or_missing_list_is_noticed(tmp_path: Path) -> None:
    """Neither half a list, nor another's, nor none is taken for the list that was saved."""
    put(tmp_path / "photos", *[f"{i}.png" for i in range(20)])
    put(tmp_path / "others", "1.png")
    source = Folder(tmp_path / "photos")
    source.save(tmp_path)
    whole = (tmp_path / LIST_FILE).read_bytes()
    (tmp_path / LIST_FILE).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="damaged"):
        open_source(source.spec(), tmp_path)
    Folder(tmp_path / "others").save(tmp_path)
    with pytest.raises(InputError, match="damaged"):
        open_source(source.spec(), tmp_path)
    (tmp_path / LIST_FILE).unlink()
    with pytest.raises(InputError, match="missing"):
        open_source(source.spec(), tmp_path)


def test_a_grown_folder_continues_an_earlier_one(tmp_path: Path) -> None:
    """New files come after the old ones, of which none changes its number, its class or its side."""
    put(tmp_path, *[f"{kind}/{i}.png" for kind in "ab" for i in range(20)])
    earlier = Folder(tmp_path)
    earlier.save(tmp_path)
    put(tmp_path, *[f"{kind}/new{i}.png" for kind in "abc" for i in range(9)])
    (tmp_path / earlier.name(0)).unlink()
    grown = Folder(tmp_path).continuing(earlier.spec(), tmp_path)
    assert isinstance(grown, Folder)
    assert names(grown)[:40] == names(earlier)
    assert len(grown) == 67
    assert all("new" in name for name in names(grown)[40:])
    assert grown.classes == earlier.classes
    assert (grown.held_out() == earlier.held_out()).all()
    for item in range(40, 67):
        known = {"a": 0, "b": 1, "c": -1}[grown.name(item)[0]]
        assert grown.truth(np.array([item])).tolist() == [known]
    grown.save(tmp_path)
    assert open_source(grown.spec(), tmp_path).spec() == grown.spec()


def test_a_pool_grows_with_its_folder(tmp_path: Path) -> None:
    """Built again after files came and went, a pool keeps its rows and appends those of the new files."""
    photos, pool = tmp_path / "photos", tmp_path / "pool"
    put(photos, *[f"{kind}/{i}.png" for kind in "ab" for i in range(20)])
    before = build(Folder(photos), pool)
    put(photos, *[f"{kind}/new{i}.png" for kind in "ab" for i in range(9)], colour="blue")
    after = build(Folder(photos), pool)
    assert len(after) == len(before) + 18
    assert (after.ids[: len(before)] == before.ids).all()
    assert (after.rows(np.arange(len(before))) == before.rows(np.arange(len(before)))).all()
    assert all("new" in after.source.name(int(item)) for item in after.ids[len(before) :])
    (photos / after.source.name(int(after.ids[3]))).unlink()
    assert (build(Folder(photos), pool).ids == after.ids).all()


def test_a_missing_or_empty_folder_is_one_clear_sentence(tmp_path: Path) -> None:
    """What is missing, is a file, holds no images, or holds links only is told apart."""
    (tmp_path / "file.png").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "a.png").symlink_to(tmp_path / "file.png")
    for name, words in {
        "missing": "there is no folder",
        "file.png": "is a file",
        "empty": "has no images",
        "links": "symbolic link.* not followed",
    }.items():
        with pytest.raises(InputError, match=words) as caught:
            Folder(tmp_path / name)
        assert str(tmp_path / name) in str(caught.value)
