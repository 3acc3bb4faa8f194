from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest

from closecall.core.errors import InputError
from closecall.core.sources import Cifar10, open_source
from closecall.core.sources.cifar10 import NAMES_FILE, TEST_FILE, TRAIN_FILES
from closecall.core.sources.images import grey_of

CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own."""
    cache = tmp_path / "cache"
    monkeypatch.setattr("closecall.core.sources.unpacking.user_cache_path", lambda name: cache / name)
    return cache


@pytest.fixture
def records() -> dict[str, np.ndarray]:
    """Six small batches of random images: 7, 8, 9, 10, 11 for training, 5 for testing."""
    rng = np.random.default_rng(0)
    made = {}
    for name, n in zip((*TRAIN_FILES, TEST_FILE), (7, 8, 9, 10, 11, 5), strict=True):
        made[name] = rng.integers(0, 256, (n, 3073), dtype=np.uint8)
        made[name][:, 0] %= 10
    return made


@pytest.fixture
def folder(tmp_path: Path, records: dict[str, np.ndarray]) -> Path:
    """These batches in the official layout."""
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    for name, batch in records.items():
        batch.tofile(folder / name)
    (folder / NAMES_FILE).write_text("\n".join(CLASSES) + "\n\n")
    return folder


@pytest.fixture
def archive(tmp_path: Path, folder: Path) -> Path:
    """The archive of that folder."""
    path = tmp_path / "cifar-10-binary.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        tar.add(folder, folder.name)
    return path


def test_items_are_the_batches_in_order(folder: Path, records: dict[str, np.ndarray]) -> None:
    """Pixels, classes and names are those of the training batches, then of the test batch."""
    source = Cifar10(folder)
    everything = np.concatenate(list(records.values()))
    assert len(source) == 50
    assert source.classes == tuple(CLASSES)
    assert (source.truth(np.arange(50)) == everything[:, 0]).all()
    for item in (0, 6, 7, 44, 45, 49):
        planes = np.asarray(source.image(item, 32)).transpose(2, 0, 1)
        assert (planes.ravel() == everything[item, 1:]).all()
    assert [source.name(item) for item in (0, 7, 49)] == [
        "data_batch_1 #0",
        "data_batch_2 #0",
        "test_batch #4",
    ]


def test_the_test_batch_is_held_out(folder: Path) -> None:
    """The last five items, and no others."""
    assert Cifar10(folder).held_out().tolist() == [45, 46, 47, 48, 49]


def test_grey_is_what_pillow_makes_of_the_picture(folder: Path) -> None:
    """Features see the picture that is shown, to the last bit, in any order of items."""
    source = Cifar10(folder)
    items = np.array([49, 0, 13, 13, 30])
    grey, problems = source.grey(items)
    assert problems == []
    for row, item in zip(grey, items, strict=True):
        assert (row == grey_of(source.image(int(item), 32))).all()


def test_images_are_never_blown_up(folder: Path) -> None:
    """The picture has its own 32 pixels, or fewer where fewer are asked for."""
    assert Cifar10(folder).image(3, 500).size == (32, 32)
    assert Cifar10(folder).image(3, 16).size == (16, 16)


def test_the_folder_around_and_the_archive_give_the_same_items(
    tmp_path: Path, folder: Path, archive: Path, own_cache: Path
) -> None:
    """However the data are given, items are the same; the archive is unpacked once."""
    items = np.arange(50)
    wanted, _ = Cifar10(folder).grey(items)
    assert (Cifar10(tmp_path).grey(items)[0] == wanted).all()
    assert (Cifar10(archive).grey(items)[0] == wanted).all()
    unpacked = next(own_cache.rglob(TEST_FILE))
    before = unpacked.stat().st_mtime_ns
    again = open_source(Cifar10(archive).spec())
    assert (again.grey(items)[0] == wanted).all()
    assert unpacked.stat().st_mtime_ns == before


def test_a_newer_archive_replaces_what_was_unpacked(archive: Path, folder: Path, own_cache: Path) -> None:
    """An archive that has changed is unpacked again, and the old content goes."""
    spec = Cifar10(archive).spec()
    batch = np.fromfile(folder / TEST_FILE, dtype=np.uint8).reshape(-1, 3073)
    batch[:, 0] = 1
    batch.tofile(folder / TEST_FILE)
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, folder.name)
    assert (Cifar10(archive).truth(np.arange(45, 50)) == 1).all()
    assert len(list(own_cache.rglob(TEST_FILE))) == 1
    with pytest.raises(InputError, match="no longer has the images"):
        open_source(spec)


def test_members_of_an_archive_cannot_leave_the_cache(tmp_path: Path, folder: Path, own_cache: Path) -> None:
    """Only the data files are taken, by their last name, wherever the archive says they go."""
    path = tmp_path / "evil.tar"
    with tarfile.open(path, "w") as tar:
        for file in folder.iterdir():
            tar.add(file, f"../../../{file.name}")
        tar.add(folder / NAMES_FILE, "../../../evil.txt")
    assert len(Cifar10(path)) == 50
    assert not list(tmp_path.rglob("evil.txt"))
    assert not (tmp_path / NAMES_FILE).exists()


@pytest.mark.parametrize("name", [*TRAIN_FILES[:2], TEST_FILE, NAMES_FILE])
def test_a_missing_file_is_named(folder: Path, archive: Path, name: str) -> None:
    """A folder or archive that lacks a file says which."""
    (folder / name).unlink()
    with pytest.raises(InputError, match=name):
        Cifar10(folder)
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, folder.name)
    with pytest.raises(InputError, match=f"lacks {name}"):
        Cifar10(archive)


def test_unsuitable_data_are_refused(tmp_path: Path, folder: Path, archive: Path) -> None:
    """Truncated batches, damaged archives, too large classes and other folders are one sentence each."""
    archive.write_bytes(archive.read_bytes()[:20_000])
    with pytest.raises(InputError, match="damaged"):
        Cifar10(archive)
    (tmp_path / "fake.tar.gz").write_text("fake")
    with pytest.raises(InputError, match="damaged, or no tar archive"):
        Cifar10(tmp_path / "fake.tar.gz")
    (tmp_path / "other").mkdir()
    with pytest.raises(InputError, match="official binary version"):
        Cifar10(tmp_path / "other")
    with pytest.raises(InputError, match="there is no folder or archive"):
        Cifar10(tmp_path / "missing")
    (folder / NAMES_FILE).write_text("cat\ndog\n")
    with pytest.raises(InputError, match="names 2 classes"):
        Cifar10(folder)
    (folder / TEST_FILE).write_bytes(b"x" * 3074)
    with pytest.raises(InputError, match="3,074 bytes"):
        Cifar10(folder)
