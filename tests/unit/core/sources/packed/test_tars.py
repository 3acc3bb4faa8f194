"""Images in tar archives: the same as in a folder, in all the ways in which archives are made."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from closecall.core.errors import InputError
from closecall.core.features import compute
from closecall.core.pool.build import build
from closecall.core.sources import Folder, ImageTars, Source, open_source, source_from
from tests.onnx_kit import write_model


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def picture(seed: int) -> bytes:
    """A small image, in PNG."""
    pixels = np.random.default_rng(seed).integers(0, 256, (12, 9, 3), dtype=np.uint8)
    held = io.BytesIO()
    Image.fromarray(pixels).save(held, "png")
    return held.getvalue()


def pack(file: Path, members: dict[str, bytes], *, format: int = tarfile.PAX_FORMAT) -> Path:  # noqa: A002
    """A tar with these members."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(file, "w", format=format) as tar:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return file


def pictures(*names: str) -> dict[str, bytes]:
    """Different images under these names."""
    return {name: picture(seed) for seed, name in enumerate(names)}


def classes_of(source: Source) -> dict[str, str | None]:
    """The class of each item, by name."""
    truth = source.truth(np.arange(len(source))).tolist()
    known = [None if place < 0 else source.classes[place] for place in truth]
    return dict(zip(source.names(np.arange(len(source))), known, strict=True))


def held_out(source: Source) -> set[str]:
    """The names of the held-out items."""
    return set(source.names(source.held_out()))


@pytest.mark.parametrize("format_", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_a_tar_is_the_folder_that_was_packed(tmp_path: Path, format_: int) -> None:
    """Names, order, classes, held-out items and features, with long names and those that are not ASCII."""
    names = [f"{split}/{kind}/{i}.png" for split in ("train", "val") for kind in "ab" for i in range(9)]
    members = pictures(*names, "train/b/Ä 東京.png", f"train/a/{'long' * 40}/x.png")
    for name, data in members.items():
        file = tmp_path / "folder" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    with tarfile.open(tmp_path / "t.tar", "w", format=format_) as tar:
        tar.add(tmp_path / "folder", ".")
    folder, source = Folder(tmp_path / "folder"), source_from(f"tar:{tmp_path / 't.tar'}")
    items = np.arange(len(folder))
    assert isinstance(source, ImageTars)
    assert len(source) == len(folder) == 38
    assert source.names(items) == folder.names(items)
    assert source.classes == folder.classes
    assert (source.truth(items) == folder.truth(items)).all()
    assert (source.held_out() == folder.held_out()).all()
    assert (compute(source, items)[0] == compute(folder, items)[0]).all()
    assert source.whole_image(3).tobytes() == folder.whole_image(3).tobytes()


def test_only_visible_images_are_items(tmp_path: Path) -> None:
    """No links, devices, folders, hidden or other files; a name that leads outside is only a name."""
    file = pack(
        tmp_path / "t.tar",
        {**pictures("a.PNG", ".b.png", "._a.png", ".c/d.png", "../../up.png", "/root.png"), "x.json": b"{}"},
    )
    with tarfile.open(file, "a") as tar:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE):
            member = tarfile.TarInfo(f"{kind!r}.png")
            member.type, member.linkname = kind, "a.PNG"
            tar.addfile(member)
    source = ImageTars(file)
    assert sorted(source.names(np.arange(len(source)))) == ["a.PNG", "root.png", "up.png"]


def test_of_two_files_with_one_name_the_last_counts(tmp_path: Path) -> None:
    """As when the archive is extracted; in two archives they are two items."""
    file = pack(tmp_path / "s" / "a.tar", {"1.png": picture(0)})
    with tarfile.open(file, "a") as tar:
        member = tarfile.TarInfo("1.png")
        member.size = len(picture(1))
        tar.addfile(member, io.BytesIO(picture(1)))
    one = ImageTars(file)
    assert len(one) == 1
    assert one.whole_image(0).tobytes() == Image.open(io.BytesIO(picture(1))).tobytes()
    pack(tmp_path / "s" / "b.tar", {"1.png": picture(2)})
    two = ImageTars(tmp_path / "s")
    assert sorted(two.names(np.arange(len(two)))) == ["a.tar/1.png", "b.tar/1.png"]


def test_the_classes_of_a_webdataset(tmp_path: Path) -> None:
    """The text of .cls beside the image, whatever the folders; what has none is of unknown class."""
    members: dict[str, bytes] = {}
    for i in range(20):
        members |= {f"f/{i}.input.png": picture(i), f"f/{i}.cls": b"%d\n" % (2 + 8 * (i % 2))}
    pack(tmp_path / "t.tar", {**members, "f/20.png": picture(20), "g/1.png": picture(21)})
    for use_classes in (True, False):
        source = ImageTars(tmp_path / "t.tar", use_classes=use_classes)
        assert source.classes == ("2", "10")
        wanted = {f"f/{i}.input.png": "10" if i % 2 else "2" for i in range(20)}
        assert classes_of(source) == {**wanted, "f/20.png": None, "g/1.png": None}
        assert len(source.held_out()) == 2


def test_folders_are_classes_unless_the_user_declines(tmp_path: Path) -> None:
    """As in a folder of images."""
    file = pack(tmp_path / "t.tar", pictures(*(f"{kind}/{i}.png" for kind in "ab" for i in range(10))))
    assert ImageTars(file).classes == ("a", "b")
    declined = ImageTars(file, use_classes=False)
    assert (declined.classes, len(declined.held_out())) == ((), 0)


@pytest.mark.parametrize(
    ("shards", "chosen"),
    [
        (("imagenet-train-0", "imagenet-test-0", "imagenet-val-0"), "imagenet-test-0.tar"),
        (("train_0", "validation_0"), "validation_0.tar"),
        (("train/0", "val/0", "more/0"), "val/0.tar"),
        (("train-0", "contest-0"), None),
        (("train-0", "train-1"), None),
    ],
)
def test_the_names_of_shards_tell_the_splits(
    tmp_path: Path, shards: tuple[str, ...], chosen: str | None
) -> None:
    """Shards of the test split are held out, else those for validation, else a tenth of all."""
    for seed, shard in enumerate(shards):
        members = {f"{i}.png": picture(100 * seed + i) for i in range(10)}
        members |= {f"{i}.cls": b"ab"[i % 2 : i % 2 + 1] for i in range(10)}
        pack(tmp_path / "s" / f"{shard}.tar", members)
    source = ImageTars(tmp_path / "s")
    assert source.classes == ("a", "b")
    if chosen is None:
        assert len(source.held_out()) == len(shards)
    else:
        assert held_out(source) == {f"{chosen}/{i}.png" for i in range(10)}


def test_shards_are_named_by_patterns(tmp_path: Path) -> None:
    """Wildcards, and braces with numbers and words; what braces name must be there."""
    for name in ("train-000", "train-001", "train-002", "val-000", "more"):
        pack(tmp_path / "s" / f"{name}.tar", {"1.png": picture(len(name))})
    (tmp_path / "s" / "._train-000.tar").write_bytes(b"of the file system")
    for pattern, wanted in {
        "*in-*.tar": ["train-000", "train-001", "train-002"],
        "train-{000..001}.tar": ["train-000", "train-001"],
        "{train,val}-00?.tar": ["train-000", "train-001", "train-002", "val-000"],
        "{train-{001..002},more}.tar": ["more", "train-001", "train-002"],
        "": ["more", "train-000", "train-001", "train-002", "val-000"],
    }.items():
        source = source_from(f"tar:{tmp_path / 's'}/{pattern}")
        assert sorted(source.names(np.arange(len(source)))) == [f"{name}.tar/1.png" for name in wanted]
    pack(tmp_path / "s" / "a{0..1}[*].tar", {"1.png": picture(0)})
    assert ImageTars(tmp_path / "s" / "a{0..1}[*].tar").name(0) == "1.png"


def test_a_cut_archive_loses_its_last_image_only(tmp_path: Path) -> None:
    """The image that is cut, or the place from which nothing is known, is an unreadable item."""
    whole = pack(tmp_path / "t.tar", pictures("a.png", "b.png", "c.png")).read_bytes()
    with tarfile.open(tmp_path / "t.tar") as tar:
        members = tar.getmembers()
    cuts = {
        members[2].offset_data + 20: ("c.png", "t.tar is incomplete: it ends in the middle of this image"),
        members[2].offset + 100: (f"after byte {members[2].offset}", "damaged or incomplete from here on"),
        members[2].offset: None,
    }
    for cut, wanted in cuts.items():
        (tmp_path / "t.tar").write_bytes(whole[:cut])
        source = ImageTars(tmp_path / "t.tar")
        _, ids, problems = compute(source, np.arange(len(source)))
        assert sorted(source.names(ids)) == ["a.png", "b.png"]
        assert len(problems) == (wanted is not None)
        for problem in problems:
            assert (problem.name, wanted[1] in problem.reason) == (wanted[0], True)
            with pytest.raises(InputError, match=f"{wanted[0]} in .*t.tar can't be shown: .*{wanted[1]}"):
                source.image(problem.item, 32)
    nonsense = bytearray(whole)
    nonsense[members[1].offset : members[1].offset + 512] = b"x" * 512
    (tmp_path / "t.tar").write_bytes(nonsense)
    assert {"a.png", f"after byte {members[1].offset}"} == set(classes_of(ImageTars(tmp_path / "t.tar")))


def test_unreadable_images_have_the_reasons_of_a_folder(tmp_path: Path) -> None:
    """Empty, fake and truncated ones."""
    bad = {"empty.png": b"", "fake.png": b"no image", "cut.png": picture(1)[:200]}
    (tmp_path / "folder").mkdir()
    for name, data in bad.items():
        (tmp_path / "folder" / name).write_bytes(data)
    sources = ImageTars(pack(tmp_path / "t.tar", bad)), Folder(tmp_path / "folder")
    found = [[(p.item, p.name, p.reason) for p in source.grey(np.arange(3))[1]] for source in sources]
    assert found[0] == found[1]
    assert len(found[0]) == 3


def test_an_image_of_any_size_is_one_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a size that no disk holds nor one that the memory may not hold stops the rest."""
    forged = tarfile.TarInfo("huge.png")
    forged.size = 1 << 80
    file = pack(tmp_path / "t.tar", pictures("a.png", "b.png"))
    with tarfile.open(file) as tar:
        last = tar.getmembers()[1]
        end = last.offset_data + -(-last.size // 512) * 512
    file.write_bytes(file.read_bytes()[:end] + forged.tobuf(tarfile.GNU_FORMAT) + bytes(1024))
    source = ImageTars(file)
    _, problems = source.grey(np.arange(3))
    assert [problem.name for problem in problems] == ["huge.png"]
    assert "it ends in the middle of this image" in problems[0].reason
    monkeypatch.setattr("closecall.core.sources.packed.base.MOST_BYTES", 10)
    _, problems = source.grey(np.arange(3))
    assert all("bytes, but at most 10 are read" in problem.reason for problem in problems)
    assert len(problems) == 3


def test_a_pool_opens_without_a_second_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the images are is saved; an archive that changed or is missing is one sentence."""
    file = pack(tmp_path / "t.tar", pictures("a/1.png", "a/2.png", "b/1.png"))
    source = ImageTars(file)
    source.save(tmp_path)
    with monkeypatch.context() as patch:
        patch.delattr(ImageTars, "_contents")
        patch.setattr(ImageTars, "__abstractmethods__", frozenset())
        again = open_source(source.spec(), tmp_path)
        assert again.spec() == source.spec()
        assert again.image(1, 99).tobytes() == source.image(1, 99).tobytes()
    raw = file.read_bytes()
    for changed in (raw[:-1024], raw + bytes(512), raw.replace(b"IHDR", b"IHDr")):
        file.write_bytes(changed)
        for folder in (tmp_path, None):
            with pytest.raises(InputError, match=r"t\.tar has changed since the pool was made: put the"):
                open_source(source.spec(), folder)
    file.unlink()
    with pytest.raises(InputError, match=r"t\.tar is missing: put it back, or build another pool"):
        open_source(source.spec(), tmp_path)
    _, problems = source.grey(np.array([0]))
    assert [problem.reason for problem in problems] == ["t.tar no longer exists"]


@pytest.mark.parametrize("name", ["files.npz", "ranges.npz"])
def test_a_damaged_or_missing_list_is_noticed(tmp_path: Path, name: str) -> None:
    """Neither half a list, nor another's, nor none is taken for the one that was saved."""
    source = ImageTars(pack(tmp_path / "t.tar", pictures("a/1.png", "a/2.png", "b/1.png")))
    other = ImageTars(pack(tmp_path / "u.tar", pictures("c/1.png", "a/2.png")))
    (tmp_path / "other").mkdir()
    other.save(tmp_path / "other")
    source.save(tmp_path)
    raw = (tmp_path / name).read_bytes()
    for damaged in (raw[: len(raw) // 2], (tmp_path / "other" / name).read_bytes()):
        (tmp_path / name).write_bytes(damaged)
        with pytest.raises(InputError, match="damaged: build the pool again"):
            open_source(source.spec(), tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(InputError, match="missing: build the pool again"):
        open_source(source.spec(), tmp_path)


def test_a_pool_grows_with_new_shards(tmp_path: Path) -> None:
    """Known items keep their numbers, rows, classes and sides; new ones come last."""
    shards, pool = tmp_path / "shards", tmp_path / "pool"
    pack(shards / "m-1.tar", pictures(*(f"{kind}/{i}.png" for kind in "ab" for i in range(15))))
    before = build(ImageTars(shards), pool)
    for number in (0, 2):
        pack(shards / f"m-{number}.tar", pictures(*(f"{kind}/{i}.png" for kind in "abc" for i in range(3))))
    after = build(ImageTars(shards), pool)
    assert len(after) == len(before) + 18
    assert (after.rows(np.arange(len(before))) == before.rows(np.arange(len(before)))).all()
    assert np.array_equal(after.held_out.ids, before.held_out.ids)
    new = after.source.names(after.ids[len(before) :])
    assert all(name.startswith(("m-0.tar", "m-2.tar")) for name in new)
    assert after.classes == ("a", "b")
    wanted = {name: name[8] if name[8] in "ab" else None for name in after.source.names(after.ids)}
    assert {name: kind for name, kind in classes_of(after.source).items() if name in wanted} == wanted
    assert (build(ImageTars(shards), pool).ids == after.ids).all()
    reopened = open_source(after.source.spec(), next(pool.glob("**/ranges.npz")).parent)
    assert reopened.spec() == after.source.spec()


def test_images_in_tars_can_have_other_features(tmp_path: Path) -> None:
    """Enlarged, by edges, by sets of edges and by a model, and grown."""
    pack(tmp_path / "s" / "0.tar", pictures(*(f"{i}.png" for i in range(6))))
    model = write_model(tmp_path / "m.onnx")
    for word, n in {"enlarged:3:": 18, "edges:": 6, "sets:enlarged:2:": 12, f"onnx:{model}:": 6}.items():
        assert len(build(source_from(f"{word}tar:{tmp_path / 's'}"), tmp_path / word[:5])) == n
    pack(tmp_path / "s" / "1.tar", pictures("1.png"))
    assert len(build(source_from(f"edges:tar:{tmp_path / 's'}"), tmp_path / "edges")) == 7


def test_bad_archives_are_one_clear_sentence(tmp_path: Path) -> None:
    """Missing, compressed, empty, without images, and no archive at all."""
    with tarfile.open(tmp_path / "packed.tar.gz", "w:gz") as tar:
        tar.addfile(tarfile.TarInfo("a.png"))
    (tmp_path / "none").mkdir()
    (tmp_path / "zipped").mkdir()
    (tmp_path / "zipped" / "a.tar.gz").touch()
    (tmp_path / "empty.tar").touch()
    (tmp_path / "fake.tar").write_bytes(b"no archive" * 200)
    pack(tmp_path / "texts.tar", {"a.txt": b"x"})
    pack(tmp_path / "blank.tar", {})
    for name, words in {
        "missing.tar": "there is no file or folder",
        "*.zip": "no file matches",
        "m{0..2}.tar": "there is no file .*m0.tar",
        "m{2..0}.tar": "must count up",
        "m{0..999}{0..999}.tar": "names more than 100,000 files",
        "packed.tar.gz": r"is compressed, .*: unpack it to a \.tar file",
        "none": r"has no \.tar files$",
        "zipped": r"has no \.tar files; unpack .*a\.tar\.gz first",
        "empty.tar": "is damaged, or no tar archive",
        "fake.tar": "is damaged, or no tar archive",
        "texts.tar": "has no images",
        "blank.tar": "has no images",
    }.items():
        with pytest.raises(InputError, match=words) as caught:
            source_from(f"tar:{tmp_path / name}")
        assert str(tmp_path) in str(caught.value)
        assert "\n" not in str(caught.value)
