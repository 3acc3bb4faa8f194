"""Images in Parquet and Arrow files, in the layouts that the library `datasets` writes."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from PIL import Image

from closecall.core.errors import InputError
from closecall.core.features import compute
from closecall.core.pool.build import build
from closecall.core.sources import Folder, ImageTable, Source, open_source, source_from
from tests.onnx_kit import write_model

N = 40
CLASSES = ("wasp", "bee")

IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
FEATURES = {
    "image": {"_type": "Image"},
    "label": {"names": list(CLASSES), "_type": "ClassLabel"},
}


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def picture(seed: int) -> bytes:
    """A small image, in PNG."""
    pixels = np.random.default_rng(seed).integers(0, 256, (12, 9, 3), dtype=np.uint8)
    held = io.BytesIO()
    Image.fromarray(pixels).save(held, "png")
    return held.getvalue()


def images(n: int = N, *, first: int = 0) -> list[dict[str, Any] | None]:
    """Images as structs."""
    return [{"bytes": picture(i), "path": f"{i}.png"} for i in range(first, first + n)]


def table(
    values: list[Any], labels: list[Any] | None = None, *, features: dict[str, Any] | None = FEATURES
) -> pa.Table:
    """A table with the metadata of `datasets`."""
    labels = [i % 2 for i in range(len(values))] if labels is None else labels
    held = pa.table({"image": pa.array(values, IMAGE), "label": pa.array(labels)})
    return held.replace_schema_metadata(
        {"huggingface": json.dumps({"info": {"features": features}})} if features else None
    )


def write(file: Path, held: pa.Table, how: str = "parquet") -> Path:
    """The table in a Parquet file, or in one of Arrow's formats, in batches of 16 rows."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if how == "parquet":
        pa.parquet.write_table(held, file, row_group_size=16)
        return file
    options = pa.ipc.IpcWriteOptions(compression="lz4" if how == "compressed" else None)
    new = pa.ipc.new_file if how == "file" else pa.ipc.new_stream
    with pa.OSFile(str(file), "wb") as out, new(out, held.schema, options=options) as writer:
        writer.write_table(held, max_chunksize=16)
    return file


LAYOUTS = {
    "parquet": "train-00000-of-00001.parquet",
    "stream": "data-00000-of-00001.arrow",
    "file": "data.arrow",
    "compressed": "compressed.arrow",
}


def classes_of(source: Source) -> dict[str, str | None]:
    """The class of each item, by name."""
    truth = source.truth(np.arange(len(source))).tolist()
    known = [None if place < 0 else source.classes[place] for place in truth]
    return dict(zip(source.names(np.arange(len(source))), known, strict=True))


@pytest.mark.parametrize("how", LAYOUTS)
def test_a_table_is_the_folder_of_its_images(tmp_path: Path, how: str) -> None:
    """Names, order, images and features are those of the files; the classes those of the metadata."""
    (tmp_path / "folder").mkdir()
    for i in range(N):
        (tmp_path / "folder" / f"{i}.png").write_bytes(picture(i))
    folder = Folder(tmp_path / "folder")
    source = source_from(f"images:{write(tmp_path / LAYOUTS[how], table(images()), how)}")
    items = np.arange(N)
    assert isinstance(source, ImageTable)
    assert source.names(items) == folder.names(items)
    assert (compute(source, items)[0] == compute(folder, items)[0]).all()
    assert all(source.whole_image(i).tobytes() == folder.whole_image(i).tobytes() for i in range(N))
    assert source.classes == ("bee", "wasp")
    assert classes_of(source) == {f"{i}.png": CLASSES[i % 2] for i in range(N)}
    assert len(source.held_out()) == N // 10
    copied = list((tmp_path / "cache").glob("**/images.bin"))
    assert len(copied) == (how in ("parquet", "compressed"))
    source.save(tmp_path)
    for folder_ in (tmp_path, None):
        again = open_source(json.loads(json.dumps(source.spec())), folder_)
        assert again.spec() == source.spec()
        assert again.image(3, 99).tobytes() == source.image(3, 99).tobytes()


def data_set(images: list[Any]) -> Any:
    """Images with classes in two splits, in the library `datasets`."""
    datasets = pytest.importorskip("datasets", reason="it is in the extra dev: make test installs it")
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=CLASSES)})
    columns = {"image": images, "label": [i % 2 for i in range(N)]}
    whole = datasets.Dataset.from_dict(columns, features=features)
    return datasets.DatasetDict({"train": whole.select(range(30)), "test": whole.select(range(30, N))})


def image_files(folder: Path) -> list[str]:
    """The images in files."""
    folder.mkdir()
    for i in range(N):
        (folder / f"{i}.png").write_bytes(picture(i))
    return [str(folder / f"{i}.png") for i in range(N)]


@pytest.mark.parametrize("how", ["to_parquet", "save_to_disk", "save_to_disk, from files"])
def test_what_datasets_writes_has_its_images_and_classes(tmp_path: Path, how: str) -> None:
    """To the last pixel, and the split `test` is held out."""
    if how == "save_to_disk, from files":
        written = data_set(image_files(tmp_path / "files"))
    else:
        written = data_set([Image.open(io.BytesIO(picture(i))) for i in range(N)])
    (tmp_path / "set").mkdir()
    if how == "to_parquet":
        for split, held in written.items():
            held.to_parquet(tmp_path / "set" / f"{split}-00000-of-00001.parquet")
    else:
        written.save_to_disk(tmp_path / "set")
    source = source_from(f"images:{tmp_path / 'set'}")
    assert (len(source), source.classes) == (N, ("bee", "wasp"))
    pixels = {Image.open(io.BytesIO(picture(i))).tobytes(): i for i in range(N)}
    numbers = [pixels[source.whole_image(item).tobytes()] for item in range(N)]
    assert sorted(numbers) == list(range(N))
    truth = source.truth(np.arange(N))
    assert [source.classes[place] for place in truth] == [CLASSES[i % 2] for i in numbers]
    assert sorted(numbers[item] for item in source.held_out()) == list(range(30, N))


def test_parquet_that_datasets_made_from_files_has_no_images(tmp_path: Path) -> None:
    """`to_parquet` writes only the paths of image files; it is refused in a sentence."""
    data_set(image_files(tmp_path / "files"))["train"].to_parquet(tmp_path / "t.parquet")
    with pytest.raises(InputError, match="each row has only the path of an image file, not its bytes"):
        source_from(f"images:{tmp_path / 't.parquet'}")


def test_a_pool_outlives_the_cache(tmp_path: Path) -> None:
    """Deleted, it is filled again when an image is needed."""
    source = ImageTable(write(tmp_path / "t.parquet", table(images(4))))
    source.save(tmp_path)
    (tmp_path / "cache").rename(tmp_path / "gone")
    again = open_source(source.spec(), tmp_path)
    assert not (tmp_path / "cache").exists()
    assert again.whole_image(0).tobytes() == source.whole_image(0).tobytes()


@pytest.mark.parametrize("order", [1, -1], ids=["by_the_reader_first", "by_another_first"])
@pytest.mark.parametrize("how", LAYOUTS)
def test_the_cache_may_be_deleted_at_any_time(tmp_path: Path, how: str, order: int) -> None:
    """The whole of it, or a file of it, while images are read from it and before."""
    source = source_from(f"images:{write(tmp_path / LAYOUTS[how], table(images(8)), how)}")
    source.save(tmp_path)
    expected = [source.encoded(item) for item in range(8)]
    for path in (
        "",
        "closecall/unpacked/*/*.bin",
        "closecall/unpacked/*/*",
        "closecall/unpacked/*/names.json",
    ):
        for file in [tmp_path / "cache"] if not path else list((tmp_path / "cache").glob(path)):
            shutil.rmtree(file) if file.is_dir() else file.unlink()
        for reader in (source, open_source(source.spec(), tmp_path))[::order]:
            assert [reader.encoded(item) for item in range(8)] == expected


def test_images_of_a_changed_table_are_not_unpacked_again(tmp_path: Path) -> None:
    """They would be others."""
    path = write(tmp_path / "t.parquet", table(images(4)))
    source = ImageTable(path)
    source.encoded(0)
    shutil.rmtree(tmp_path / "cache")
    write(path, table(images(4, first=4)))
    with pytest.raises(InputError, match=r"t\.parquet has changed since the pool was made"):
        source.encoded(0)


@pytest.mark.parametrize("how", ["parquet", "stream"])
def test_rows_without_an_image_are_unreadable_items(tmp_path: Path, how: str) -> None:
    """Empty rows, rows with a path alone, and bytes that are no image; the rest goes on."""
    values = [
        *images(2),
        None,
        {"bytes": None, "path": "elsewhere/a.png"},
        {"bytes": None, "path": None},
        {"bytes": b"", "path": "empty.png"},
        {"bytes": b"nonsense", "path": None},
        *images(20, first=2),
        *[None] * 20,
    ]
    source = ImageTable(write(tmp_path / f"t{LAYOUTS[how][-8:]}", table(values), how))
    _, ids, problems = compute(source, np.arange(len(source)))
    assert sorted(source.names(ids)) == sorted(f"{i}.png" for i in range(22))
    reasons = {problem.name: problem.reason for problem in problems if "row" not in problem.name}
    assert reasons == {
        "elsewhere/a.png": "its row has only the path of an image file, not its bytes",
        "empty.png": "the file is empty",
    }
    rows = {problem.name: problem.reason for problem in problems if "row" in problem.name}
    assert rows.pop("row 7") == "it is not an image of a supported format"
    assert rows == dict.fromkeys(
        ["row 3", "row 5", *(f"row {i}" for i in range(28, 48))], "its row has no image"
    )


def test_plain_bytes_and_repeated_paths_are_named_by_their_rows(tmp_path: Path) -> None:
    """Every item has a name of its own, which leads nowhere."""
    plain = pa.table({"photo": pa.array([picture(i) for i in range(3)], pa.large_binary())})
    source = ImageTable(write(tmp_path / "a.parquet", plain))
    assert sorted(source.names(np.arange(3))) == ["row 1", "row 2", "row 3"]
    assert (source.classes, len(source.held_out())) == ((), 0)
    paths = ["x.png", "/etc/../x.png", "x.png", "Ä 東京.png"]
    values = [{"bytes": picture(i), "path": path} for i, path in enumerate(paths)]
    source = ImageTable(write(tmp_path / "b.parquet", table(values)))
    assert set(classes_of(source)) == {"x.png (row 1)", "etc/x.png", "x.png (row 3)", "Ä 東京.png"}


@pytest.mark.parametrize(
    ("labels", "features", "wanted"),
    [
        ([0, 1, -1, 1], FEATURES, ["wasp", "bee", None, "bee"]),
        ([0, 1, None, 7], FEATURES, ["wasp", "bee", None, None]),
        ([10, 9, -1, 9], None, ["10", "9", None, "9"]),
        (["x", "", None, "y"], None, ["x", None, None, "y"]),
        ([True, False, None, True], {"label": "nonsense"}, ["True", "False", None, "True"]),
        ([5, 5, 5, 5], None, [None] * 4),
    ],
)
def test_classes_are_names_numbers_or_words(
    tmp_path: Path, labels: list[Any], features: dict[str, Any] | None, wanted: list[str | None]
) -> None:
    """As the metadata say, or as they are; one class is none, and negative numbers are unknown."""
    source = ImageTable(write(tmp_path / "t.parquet", table(images(4), labels, features=features)))
    assert classes_of(source) == {f"{i}.png": kind for i, kind in enumerate(wanted)}
    known = [kind for kind in wanted if kind]
    assert list(source.classes) == (["9", "10"] if "10" in known else sorted(set(known), key=str.casefold))


def test_columns_are_found_or_named(tmp_path: Path) -> None:
    """The usual names, the only column of images, the one declared as a class; or as the user says."""
    held = table(images(), features={"kind": {"names": list(CLASSES), "_type": "ClassLabel"}})
    renamed = held.rename_columns(["scan", "kind"]).replace_schema_metadata(held.schema.metadata)
    file = write(tmp_path / "t.parquet", renamed)
    assert ImageTable(file).classes == ("bee", "wasp")
    two = pa.table(
        {
            "mask": held["image"],
            "Img": pa.array(images(first=N), IMAGE),
            "label": pa.array([str(i) for i in range(N)]),
            "many": pa.array(range(N)),
            "more": pa.array([i % 3 for i in range(N)]),
        }
    )
    file = write(tmp_path / "u.parquet", two)
    assert sorted(classes_of(ImageTable(file))) == sorted(f"{i}.png" for i in range(N, 2 * N))
    source = source_from(f"images:{file},mask,more")
    assert sorted(classes_of(source)) == sorted(f"{i}.png" for i in range(N))
    assert source.classes == ("0", "1", "2")
    write(tmp_path / "s" / "u.parquet", two)
    assert source_from(f"images:{tmp_path / 's'},mask,more").classes == ("0", "1", "2")
    assert source_from(f"images:{tmp_path / 's'}/*.parquet,mask,more").classes == ("0", "1", "2")
    assert source_from(f"images:{tmp_path / 's'}").spec()["image"] is None


@pytest.mark.parametrize(
    "names",
    [
        ("data/train-00000-of-00001.parquet", "data/test-00000-of-00001.parquet"),
        ("train/data-00000-of-00001.arrow", "test/data-00000-of-00001.arrow"),
    ],
)
def test_the_test_split_of_a_data_set_is_held_out(tmp_path: Path, names: tuple[str, str]) -> None:
    """As the hub stores it, and as `save_to_disk` does; the caches beside the data are not read."""
    for name, first in zip(names, (0, N), strict=True):
        how = "parquet" if name.endswith("parquet") else "stream"
        write(tmp_path / "set" / name, table(images(10, first=first)), how)
        (tmp_path / "set" / name).with_name("cache-0123.arrow").write_bytes(b"other columns")
        (tmp_path / "set" / name).with_name("state.json").write_text("{}")
    source = ImageTable(tmp_path / "set")
    assert len(source) == 20
    held_out = source.names(source.held_out())
    assert sorted(held_out) == sorted(f"{names[1]}/{i}.png" for i in range(N, N + 10))


def test_a_pool_grows_with_new_files_and_notices_changed_ones(tmp_path: Path) -> None:
    """Known items keep their numbers, classes and sides."""
    write(tmp_path / "s" / "1.parquet", table(images()))
    before = build(ImageTable(tmp_path / "s"), tmp_path / "pool")
    write(tmp_path / "s" / "0.arrow", table(images(10, first=N)), "stream")
    after = build(ImageTable(tmp_path / "s"), tmp_path / "pool")
    assert len(after) == len(before) + 10
    assert (after.rows(np.arange(len(before))) == before.rows(np.arange(len(before)))).all()
    assert np.array_equal(after.held_out.ids, before.held_out.ids)
    assert all(name.startswith("0.arrow/") for name in after.source.names(after.ids[len(before) :]))
    write(tmp_path / "s" / "1.parquet", table(images(first=1)))
    with pytest.raises(InputError, match=r"1\.parquet has changed since the pool was made: put the"):
        build(ImageTable(tmp_path / "s"), tmp_path / "pool")


def test_images_in_tables_can_have_other_features(tmp_path: Path) -> None:
    """Enlarged, by edges, by sets of edges and by a model."""
    file = write(tmp_path / "t.parquet", table(images(8)))
    model = write_model(tmp_path / "m.onnx")
    for word, n in {"enlarged:3:": 24, "edges:": 8, "sets:enlarged:2:": 16, f"onnx:{model}:": 8}.items():
        pool = build(source_from(f"{word}images:{file}"), tmp_path / word[:5])
        assert len(pool) == n
        assert pool.source.image(n - 1, 32).size[1] == 12


def test_bad_tables_are_one_clear_sentence(tmp_path: Path) -> None:
    """Missing, empty, damaged, without images or without their bytes, or without the columns."""
    only_paths = [{"bytes": None, "path": "a.png"}] * 3
    write(tmp_path / "paths.parquet", table(only_paths))
    write(tmp_path / "none.parquet", table([None] * 3))
    write(tmp_path / "rows.parquet", table([]))
    write(tmp_path / "texts.parquet", pa.table({"text": ["a"], "label": [1]}))
    write(tmp_path / "two.parquet", pa.table({"a": [b"x"], "b": [b"y"]}))
    write(tmp_path / "good.parquet", table(images(30), [3] * 30))
    whole = write(tmp_path / "cut.arrow", table(images()), "stream").read_bytes()
    (tmp_path / "cut.arrow").write_bytes(whole[:4000])
    whole = write(tmp_path / "cut.parquet", table(images())).read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[:4000])
    (tmp_path / "empty.arrow").touch()
    (tmp_path / "fake.arrow").write_bytes(b"ARROW1 nonsense" * 99)
    (tmp_path / "folder").mkdir()
    for word, words in {
        "missing.parquet": "there is no file or folder",
        "folder": r"has no \.parquet or \.arrow files",
        "paths.parquet": "has no images: each row has only the path of an image file, not its bytes",
        "none.parquet": "has no images: each row has no image",
        "rows.parquet": "has no images",
        "texts.parquet": "has no column with the bytes of image files",
        "two.parquet": "has several columns of images: choose one of a, b",
        "good.parquet,label": "column label of .* has values of type int64, but the bytes of image",
        "good.parquet,pixels": "has no column 'pixels': choose one of image, label",
        "good.parquet,image,label": "column label of .* must have 2 to 32,767 different classes",
        "cut.arrow": "is damaged, or no Arrow file",
        "cut.parquet": "is damaged, or no Parquet file",
        "empty.arrow": "is damaged, or no Arrow file",
        "fake.arrow": "is damaged, or no Arrow file",
    }.items():
        with pytest.raises(InputError, match=words) as caught:
            source_from(f"images:{tmp_path / word}")
        assert str(tmp_path) in str(caught.value)
        assert "\n" not in str(caught.value)
