from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from PIL import Image

from closecall.core.errors import InputError
from closecall.core.features import compute, n_features
from closecall.core.numerics.rows import is_sparse
from closecall.core.onnx import ImageModel
from closecall.core.pool.build import build
from closecall.core.sources import (
    KINDS,
    AddressList,
    Arrays,
    Cifar10,
    Described,
    Digits,
    Embedded,
    Enlarged,
    Folder,
    ImageTable,
    ImageTars,
    Newsgroups,
    PointSets,
    RemoteFolder,
    Source,
    TextFolder,
    Texts,
    TextTable,
    TinyImages,
    Variants,
    Vectors,
    Videos,
    open_source,
    source_from,
)
from closecall.core.sources.registry import feature_kind, item_word
from tests.onnx_kit import write_model
from tests.video_kit import write_video
from tests.web_kit import Server, serving

N = 24


def photos(root: Path) -> Path:
    """Images of two classes in a folder."""
    rng = np.random.default_rng(0)
    for i in range(N):
        file = root / "photos" / ("ant" if i % 2 else "bee") / f"{i}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (20, 30, 3), dtype=np.uint8)).save(file)
    return root / "photos"


def tar(root: Path) -> Path:
    """The same images in an archive."""
    with tarfile.open(root / "photos.tar", "w") as packed:
        packed.add(photos(root), "photos")
    return root / "photos.tar"


SERVER: list[Server] = []


def addresses(root: Path) -> Path:
    """Addresses of the same images, with classes, in a table."""
    files = sorted(photos(root).glob("*/*"))
    SERVER[0].files = {f"/{file.relative_to(root)}": file.read_bytes() for file in files}
    held = [{"url": f"{SERVER[0].address}/{f.relative_to(root)}", "label": f.parent.name} for f in files]
    pa.parquet.write_table(pa.Table.from_pylist(held), root / "addresses.parquet")
    return root / "addresses.parquet"


def remote_folder(root: Path) -> str:
    """The address of their folder."""
    addresses(root)
    return f"{SERVER[0].address}/photos"


def rows(root: Path) -> Path:
    """The same images in a table."""
    files = sorted(photos(root).glob("*/*"))
    held = [{"image": file.read_bytes(), "label": file.parent.name} for file in files]
    pa.parquet.write_table(pa.Table.from_pylist(held), root / "photos.parquet")
    return root / "photos.parquet"


def videos(root: Path) -> Path:
    """As many frames of two classes, in videos of two frames."""
    for i in range(N):
        write_video(root / "videos" / ("ant" if i % 2 else "bee") / f"{i}.mp4", 2, seed=i)
    return root / "videos"


def embeddings(root: Path) -> Path:
    """A row for each of them."""
    np.save(root / "x.npy", np.random.default_rng(1).normal(size=(N, 7)))
    return root / "x.npy"


def labels(root: Path) -> Path:
    """A class for each of them."""
    (root / "labels.txt").write_text("\n".join("ant" if i % 2 else "bee" for i in range(N)))
    return root / "labels.txt"


def point_sets(root: Path) -> Path:
    """Some points for each of them."""
    rng = np.random.default_rng(4)
    sizes = rng.integers(1, 9, N)
    np.savez(root / "points.npz", points=rng.random((sizes.sum(), 3)), sizes=sizes)
    return root / "points.npz"


def batches(root: Path) -> Path:
    """A small CIFAR-10."""
    rng = np.random.default_rng(2)
    for name in [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]:
        batch = rng.integers(0, 256, (4, 3073), dtype=np.uint8)
        batch[:, 0] %= 2
        batch.tofile(root / name)
    (root / "batches.meta.txt").write_text("airplane\nautomobile\n")
    return root


def tiny(root: Path) -> Path:
    """A small file of Tiny Images."""
    np.random.default_rng(3).integers(0, 256, N * 3072, dtype=np.uint8).tofile(root / "tiny.bin")
    return root / "tiny.bin"


def texts(root: Path) -> Path:
    """Texts of two classes in a folder."""
    rng = np.random.default_rng(3)
    for i in range(N):
        file = root / "texts" / ("ant" if i % 2 else "bee") / f"{i}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(" ".join(f"word{number}" for number in rng.integers(0, 50, 30)))
    return root / "texts"


def postings(root: Path) -> Path:
    """A small 20 Newsgroups."""
    for file in list(texts(root).glob("*/*")):
        part = "20news-bydate-test" if int(file.stem) % 3 == 0 else "20news-bydate-train"
        (root / "news" / part / file.parent.name).mkdir(parents=True, exist_ok=True)
        file.rename(root / "news" / part / file.parent.name / file.stem)
    return root / "news"


def table(root: Path) -> Path:
    """The same texts in a table."""
    files = sorted(texts(root).glob("*/*"))
    lines = [json.dumps({"text": file.read_text(), "label": file.parent.name}) for file in files]
    (root / "table.jsonl").write_text("\n".join(lines))
    return root / "table.jsonl"


MAKERS: dict[str, Callable[[Path], Source]] = {
    "digits": lambda _: Digits(50, seed=3),
    "folder": lambda root: Folder(photos(root)),
    "tar": lambda root: ImageTars(tar(root)),
    "image table": lambda root: ImageTable(rows(root)),
    "addresses": lambda root: AddressList(addresses(root)),
    "remote folder": lambda root: RemoteFolder(remote_folder(root)),
    "video": lambda root: Videos(videos(root)),
    "cifar10": lambda root: Cifar10(batches(root)),
    "tiny": lambda root: TinyImages(tiny(root)),
    "arrays": lambda root: Arrays(embeddings(root), photos(root)),
    "vectors": lambda root: Vectors(embeddings(root), labels(root)),
    "points": lambda root: PointSets(point_sets(root), labels(root)),
    "enlarged": lambda root: Enlarged(Folder(photos(root)), 3),
    "variants": lambda root: Variants(build(Folder(photos(root)), root / "base").path, 60),
    "described": lambda root: Described(Folder(photos(root)), "edges"),
    "described, sparse": lambda root: Described(Folder(photos(root)), "sets"),
    "onnx": lambda root: Embedded(Folder(photos(root)), ImageModel(write_model(root / "m.onnx"))),
    "newsgroups": lambda root: Newsgroups(postings(root)),
    "texts": lambda root: TextFolder(texts(root)),
    "table": lambda root: TextTable(table(root)),
}


def features(source: Source, items: np.ndarray) -> np.ndarray:
    """The features, dense."""
    X = compute(source, items)[0]
    return X.toarray() if is_sparse(X) else X


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture(scope="module", autouse=True)
def _server() -> Iterator[None]:
    with serving({}) as server:
        SERVER[:] = [server]
        yield


@pytest.fixture(params=list(MAKERS))
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Source:
    """One source of each kind."""
    return MAKERS[request.param](tmp_path)


def test_every_kind_is_under_contract() -> None:
    """A kind that is registered in core.sources is tested here."""
    assert {kind for kind, made in KINDS.items() if made.__module__.startswith("closecall.")} == {
        word.partition(",")[0] for word in MAKERS
    }


def test_a_spec_survives_json_and_gives_the_same_source(source: Source, tmp_path: Path) -> None:
    """Reopened, with or without what it saved, a source has the same items, truth and held-out ids."""
    spec = json.loads(json.dumps(source.spec()))
    assert spec["kind"] == source.kind
    saved = tmp_path / "pool"
    saved.mkdir()
    source.save(saved)
    items = np.arange(0, len(source), 5)
    for folder in (saved, None):
        again = open_source(spec, folder)
        assert type(again) is type(source)
        assert len(again) == len(source)
        assert again.title == source.title
        assert again.classes == source.classes
        assert again.spec() == source.spec()
        assert (again.truth(items) == source.truth(items)).all()
        assert (again.held_out() == source.held_out()).all()
        assert (features(again, items) == features(source, items)).all()
        assert again.names(items) == [source.name(int(item)) for item in items]


@pytest.mark.parametrize("name", MAKERS)
def test_a_spec_tells_what_an_item_is_called(name: str, tmp_path: Path) -> None:
    """Names of vectors and sets begin with it."""
    source = MAKERS[name](tmp_path)
    word = item_word(source.spec())
    by_kind = {"vectors": "vector", "points": "set"}
    assert word == by_kind.get(source.kind, "text" if isinstance(source, Texts) else "image")
    assert source.kind not in by_kind or source.name(0).startswith(f"{word} ")
    assert item_word({"kind": "of another version"}) == "item"


KINDS_OF_FEATURES = {
    "arrays": "embeddings",
    "vectors": "embeddings",
    "described": "edges",
    "described, sparse": "sets",
}


@pytest.mark.parametrize("name", MAKERS)
def test_the_kind_of_features_is_told_by_the_spec(name: str, tmp_path: Path) -> None:
    """With or without what the source saved; texts tell their vocabulary, other images are GIST."""
    source = MAKERS[name](tmp_path)
    expected = KINDS_OF_FEATURES.get(name, "gist")
    if isinstance(source, Texts):
        expected = f"words of the vocabulary {source.vocabulary.digest}"
    if isinstance(source, PointSets):
        spec = source.spec()
        expected = f"bins of the points {spec['digest']}, classes {spec['labels_digest']}"
    if isinstance(source, Embedded):
        expected = feature_kind(source.spec(), None)
        assert source.model.digest[:16] in expected
    saved = tmp_path / "pool"
    saved.mkdir()
    source.save(saved)
    assert [feature_kind(source.spec(), folder) for folder in (saved, None)] == [expected] * 2


def test_variants_have_the_features_of_their_images(tmp_path: Path) -> None:
    """Enlarged or not, the extractor is the same."""
    varied = Enlarged(Described(Folder(photos(tmp_path)), "edges"), 2)
    assert feature_kind(varied.spec(), None) == "edges"


def test_pictures_are_bounded_and_always_the_same(source: Source) -> None:
    """Mode RGB or L, longest side within the size asked for, the same pixels each time."""
    for size in (7, 32, 200):
        for item in (0, len(source) // 2, len(source) - 1):
            picture = source.image(item, size)
            assert picture.mode in ("RGB", "L")
            assert 1 <= max(picture.size) <= size
            assert picture.tobytes() == source.image(item, size).tobytes()


def test_grey_squares_are_what_features_take(source: Source) -> None:
    """float32 in 0 … 1, of shape (n, 32, 32), each row independent of its batch."""
    items = np.array([len(source) - 1, 0, 3, 0])
    grey, problems = source.grey(items)
    assert (grey.dtype, grey.shape) == (np.float32, (4, 32, 32))
    assert grey.min() >= 0
    assert grey.max() <= 1
    assert problems == []
    for row, item in zip(grey, items, strict=True):
        assert (source.grey(np.array([item]))[0][0] == row).all()
    assert source.grey(np.empty(0, dtype=np.int64))[0].shape == (0, 32, 32)


def test_truth_and_held_out_items_fit_together(source: Source) -> None:
    """Truth is int16 within the classes; where there are any, some items are held out, and not all."""
    truth = source.truth(np.arange(len(source)))
    assert truth.dtype == np.int16
    assert truth.min() >= -1
    assert truth.max() < len(source.classes)
    held_out = source.held_out()
    assert held_out.dtype == np.int64
    assert (np.diff(held_out) > 0).all()
    assert len(held_out) < len(source)
    assert bool(len(held_out)) == bool(source.classes)
    assert (source.truth(held_out) >= 0).all()


def test_features_are_unit_rows_and_threads_change_nothing(source: Source) -> None:
    """Whatever the threads and batches, the same items have the same features, to the last bit."""
    items = np.arange(len(source))
    X, ids, problems = compute(source, items)
    assert (X.dtype, X.shape) == (np.float32, (len(source), n_features(source)))
    assert (ids == items).all()
    assert problems == []
    dense = features(source, items)
    np.testing.assert_allclose(np.linalg.norm(dense, axis=1), 1, atol=1e-5)
    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(lambda part: features(source, part), np.array_split(items, 7)))
    assert (np.concatenate(parts) == dense).all()


def test_an_item_outside_is_refused(source: Source) -> None:
    """Every way to ask for an id that does not exist gives the same sentence."""
    n = len(source)
    for ask in (
        lambda item: source.image(item, 32),
        lambda item: source.grey(np.array([item])),
        lambda item: source.truth(np.array([item])),
        lambda item: compute(source, np.array([item])),
    ):
        for item in (-1, n):
            with pytest.raises(InputError, match=f"from 0 to {n - 1} in .*, got {item}"):
                ask(item)


@pytest.mark.parametrize(
    "name", ["folder", "arrays", "texts", "tar", "video", "remote folder", "enlarged", "described", "onnx"]
)
def test_folders_can_be_declined_as_classes(name: str, tmp_path: Path) -> None:
    """The source is then the one that `source_from` makes without classes, and no server is asked again."""
    source = MAKERS[name](tmp_path)
    assert source.classes == ("ant", "bee")
    asked = len(SERVER[0].asked)
    declined = source.without_folder_classes()
    assert len(SERVER[0].asked) == asked
    root = tmp_path / ("videos" if name == "video" else "photos")
    word = {
        "arrays": f"arrays:{tmp_path / 'x.npy'},{root}",
        "texts": f"texts:{tmp_path / 'texts'}",
        "tar": f"tar:{tmp_path / 'photos.tar'}",
        "video": f"video:{root}",
        "remote folder": f"{SERVER[0].address}/photos",
        "enlarged": f"enlarged:3:{root}",
        "described": f"edges:{root}",
        "onnx": f"onnx:{tmp_path / 'm.onnx'}:{root}",
    }.get(name, str(root))
    expected = source_from(word, use_classes=False)
    assert declined.spec() == expected.spec()
    assert declined.classes == ()
    assert len(declined.held_out()) == 0
    assert declined.names(np.arange(len(declined))) == expected.names(np.arange(len(expected)))


@pytest.mark.parametrize("name", ["digits", "image table", "addresses", "cifar10", "newsgroups", "table"])
def test_classes_from_elsewhere_stay(name: str, tmp_path: Path) -> None:
    """A source whose classes are no folders is returned as it is."""
    source = MAKERS[name](tmp_path)
    assert source.without_folder_classes() is source
    assert source.classes


def test_unknown_or_incomplete_specs_are_refused() -> None:
    """A spec of another program's kind, or one that lacks a part, is one sentence."""
    with pytest.raises(InputError, match=r"must be one of .*digits.*, got 'documents'"):
        open_source({"kind": "documents"})
    with pytest.raises(InputError, match="folder source lacks 'path'"):
        open_source({"kind": "folder"})


def test_the_resolution_is_that_of_the_whole_image(source: Source) -> None:
    """It is known before the image is decoded; a drawing has none."""
    for item in (0, len(source) // 2, len(source) - 1):
        resolution = source.resolution(item)
        if resolution is not None:
            assert resolution == source.whole_image(item).size


def test_sources_over_photographs_halve_them_while_decoding(tmp_path: Path) -> None:
    """JPEG files in a folder can be decoded at a smaller size, whatever reads them; changed copies cannot."""
    for number in range(N):
        file = tmp_path / "photos" / f"{number}.jpg"
        file.parent.mkdir(exist_ok=True)
        Image.linear_gradient("L").rotate(15 * number).resize((301, 200)).save(file, quality=95)
    folder = Folder(tmp_path / "photos")
    np.save(tmp_path / "rows.npy", np.eye(N, dtype=np.float32))
    enlarged = Enlarged(folder, 2)
    others = [
        Described(folder, "edges"),
        Arrays(tmp_path / "rows.npy", tmp_path / "photos"),
        Variants(build(folder, tmp_path / "pool").path, 2 * N),
    ]
    for source in (folder, enlarged, *others):
        halved = source.halved_image(0, 1)
        assert halved is not None
        assert halved.size == (151, 100)
        whole = np.asarray(source.whole_image(0).reduce(2), dtype=float)
        assert np.abs(np.asarray(halved, dtype=float) - whole).mean() < 2
    assert enlarged.halved_image(len(enlarged) - 1, 1) is None
