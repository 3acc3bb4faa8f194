from __future__ import annotations

import io
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from onnx.helper import make_node
from PIL import Image

from closecall.app.cli.main import main
from closecall.app.projects.uploaded_images import read_upload
from closecall.core.errors import InputError
from closecall.core.features import compute, of_image
from closecall.core.linear.svm import train
from closecall.core.onnx import ImageModel
from closecall.core.pool.build import build
from closecall.core.pool.pool import Pool
from closecall.core.selection import make_strategy
from closecall.core.sources import Digits, Embedded, Enlarged, Folder, source_from
from tests.onnx_kit import N_FEATURES, write_model, write_odd_model
from tests.pools import contents, killed_pools, small_pool
from tests.scale import scaled


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A folder with a model."""
    return write_model(
        tmp_path / "models" / "small" / "model.onnx", outputs=("image_embeds", "logits")
    ).parent


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Images of every mode and shape, in two classes, and some that can't be read."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "photos"
    for number in range(40):
        file = folder / ("ant" if number % 2 else "bee") / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        height, width = rng.integers(3, 60, 2)
        noise = Image.fromarray(rng.integers(0, 256, (height, width, 4), dtype=np.uint8))
        mode = ("RGB", "L", "RGBA", "P", "1", "CMYK")[number % 6]
        noise.convert(mode).save(file.with_suffix(".tiff") if mode == "CMYK" else file)
    (folder / "ant" / "damaged.png").write_bytes(b"no image")
    (folder / "bee" / "empty.jpg").write_bytes(b"")
    return folder


def test_a_word_names_model_and_source(model, photos):
    """A folder or a file, an output, and any source of images, with colons in it or not."""
    for word in (f"onnx:{model}:{photos}", f"onnx:{model / 'model.onnx'}:{photos}"):
        source = source_from(word)
        assert isinstance(source, Embedded)
        assert (source.n_features, source.title) == (N_FEATURES, "Photos in photos, by small/model.onnx")
        assert source.classes == ("ant", "bee")
    assert source_from(f"onnx:{model}#logits:{photos}").n_features == 1000
    enlarged = source_from(f"onnx:{model}:enlarged:3:digits:50")
    assert isinstance(enlarged.source, Enlarged)
    assert source_from(f"onnx:{model}:{photos}", use_classes=False).classes == ()


def test_names_with_colons_are_understood(tmp_path):
    """Of the folder, and of the output, as TensorFlow names them."""
    file = write_model(tmp_path / "my:models" / "m.onnx", outputs=("image_embeds", "map"))
    assert source_from(f"onnx:{file}:digits:50").n_features == N_FEATURES
    assert source_from(f"onnx:{file}#map:digits:50")._output["name"] == "map"
    for name in ("clip", "clip:large", "clip#2"):
        write_model(tmp_path / name / "m.onnx", outputs=("image_embeds", "map"))
        source = source_from(f"onnx:{tmp_path / name}:digits:50")
        assert isinstance(source, Embedded)
        assert source.file == tmp_path / name / "m.onnx"
    assert source_from(f"onnx:{tmp_path}/clip#2#map:digits:50").n_features == N_FEATURES
    with pytest.raises(InputError, match="there is no model"):
        source_from(f"onnx:{'x' * 300}:digits:50")


@pytest.mark.parametrize(
    ("word", "words"),
    [
        ("onnx:{model}", "needs a model, a colon and a source"),
        ("onnx:", "needs a model, a colon and a source"),
        ("onnx:{model}:", "needs a model, a colon and a source"),
        ("onnx:/none/here:digits:50", "there is no model /none/here"),
        ("onnx:{model}#x:digits:50", "has no output 'x': it has image_embeds, logits"),
        ("onnx:{model}:onnx:{model}:digits:50", "has its own embeddings"),
        ("enlarged:2:onnx:{model}:digits:50", "only images can be enlarged"),
    ],
)
def test_a_word_that_makes_no_sense_is_refused_in_a_sentence(model, word, words):
    """Each says why."""
    with pytest.raises(InputError, match=words):
        source_from(word.format(model=model))


def test_texts_are_refused(model, tmp_path):
    """An image model reads no texts."""
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("some words")
    with pytest.raises(InputError, match="contains texts"):
        source_from(f"onnx:{model}:texts:{tmp_path / 'texts'}")


def test_features_are_the_models_of_the_whole_image(model, photos):
    """Not of a smaller one, as for display: unit rows in the order of the items, bad files left out."""
    source = source_from(f"onnx:{model}:{photos}")
    X, ids, problems = compute(source, np.arange(len(source)))
    assert {Path(problem.name).name: problem.reason for problem in problems} == {
        "damaged.png": "it is not an image of a supported format",
        "empty.jpg": "the file is empty",
    }
    direct = ImageModel(model)
    for row, item in zip(X, ids.tolist(), strict=True):
        vector = direct.features(source.whole_image(item)).astype(np.float64)
        assert np.allclose(row, vector / np.linalg.norm(vector), rtol=0, atol=1e-6)
        original = source.original(item)
        assert original is not None
        with Image.open(original) as image:
            assert source.whole_image(item).size == image.size


def test_a_large_photograph_keeps_its_resolution_for_the_model(model, tmp_path):
    """JPEGs are decoded in full, though display uses reduced ones."""
    folder = tmp_path / "large"
    folder.mkdir()
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 256, (900, 1300, 3), dtype=np.uint8)).save(folder / "a.jpg")
    source = source_from(f"onnx:{model}:{folder}")
    with Image.open(folder / "a.jpg") as image:
        expected = ImageModel(model).features(image.convert("RGB"))
    assert np.array_equal(source.features(np.array([0]))[0], expected)


def dark_photos(folder: Path, numbers: range) -> Path:
    """Grayscale photographs in 16 bits, which neither begin at black nor end at white."""
    folder.mkdir(exist_ok=True)
    for number in numbers:
        values = np.random.default_rng(number).integers(40, 110, (20, 30), dtype=np.uint16)
        Image.fromarray(257 * values).save(folder / f"{number}.png")
    return folder


def in_8_bits(folder: Path, copies: Path) -> Path:
    """Copies of the photographs of `dark_photos`."""
    copies.mkdir()
    for file in folder.iterdir():
        with Image.open(file) as image:
            Image.fromarray((np.asarray(image) // 257).astype(np.uint8)).save(copies / file.name)
    return copies


def test_a_photograph_in_16_bits_has_the_features_of_its_copy_in_8(model, tmp_path):
    """As an item and as an upload, of which the page shows a stretched copy."""
    deep = dark_photos(tmp_path / "deep", range(20))
    plain = in_8_bits(deep, tmp_path / "plain")
    source, copies = (source_from(f"onnx:{model}:{folder}") for folder in (deep, plain))
    items = np.arange(20)
    assert source.names(items) == copies.names(items)
    X = compute(source, items)[0]
    assert np.array_equal(X, compute(copies, items)[0])
    kept, features = read_upload((deep / source.name(3)).read_bytes(), "it", source)
    assert np.array_equal(features, X[3])
    with Image.open(io.BytesIO(kept)) as shown:
        assert shown.getextrema() == (0, 255)


def test_an_old_pool_goes_on_with_stretched_photographs(model, tmp_path):
    """Its manifest doesn't mention it. New items and uploads are described as the old ones, bit for bit."""
    deep = dark_photos(tmp_path / "deep", range(30))
    steps = replace(ImageModel(model).preprocessing, stretch=True)

    def old() -> Embedded:
        source = Embedded(Folder(deep), ImageModel(model, preprocessing=steps))
        del source._preprocessing["stretch"]
        return source

    before = build(old(), tmp_path / "pool")
    assert "stretch" not in before.source.spec()["preprocessing"]
    dark_photos(deep, range(30, 50))
    after = build(source_from(f"onnx:{model}:{deep}"), tmp_path / "pool")
    assert after.source.spec()["preprocessing"] == before.source.spec()["preprocessing"]
    X, ids, _ = compute(old(), np.arange(50))
    by_name = dict(zip(old().names(ids), X, strict=True))
    assert len(after) == 50
    for name, row in zip(after.source.names(after.ids), after.rows_of(after.ids), strict=True):
        assert np.array_equal(row, by_name[name])
    _, features = read_upload((deep / "45.png").read_bytes(), "it", Pool.open(tmp_path / "pool").source)
    assert np.array_equal(features, by_name["45.png"])
    new = source_from(f"onnx:{model}:{deep}")
    assert new.feature_kind(new.spec(), None) == after.feature_kind
    assert not np.array_equal(compute(new, ids)[0], X)


MEMORY = """
import resource
import sys
from pathlib import Path
from threading import Thread

import numpy as np

from closecall.core.features import compute
from closecall.core.sources import source_from

source = source_from(f"onnx:{sys.argv[1]}:{sys.argv[2]}", use_classes=False)
names = [Path(name).stem for name in source.names(np.arange(len(source)))]
compute(source, np.array([names.index("small")]))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
items = [item for item, name in enumerate(names) if name != "small"]
threads = [Thread(target=compute, args=(source, np.array([item]))) for item in items]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is counted in other units there")
def test_large_photographs_take_the_memory_of_one(model, tmp_path):
    """Whatever their modes and orientation, and however many threads read them: 60 million pixels each."""
    folder = tmp_path / "large"
    folder.mkdir()
    turned = Image.Exif()
    turned[0x0112] = 6
    large = Image.new("L", (7500, 8000), 99)
    large.save(folder / "turned.jpg", exif=turned)
    large.convert("RGBA").save(folder / "alpha.png", compress_level=1)
    large.convert("I;16").save(folder / "deep.tiff", compression="tiff_lzw")
    large.resize((9, 9)).save(folder / "small.png")
    del large
    command = [sys.executable, "-c", MEMORY, str(model), str(folder)]
    grown = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert grown * 1024 < 400e6


def test_an_image_without_direction_is_left_out(tmp_path):
    """Where all features are zero, there is nothing to compare."""
    file = write_model(tmp_path / "m.onnx", zero=True)
    _, ids, problems = compute(Embedded(Digits(50), ImageModel(file)), np.arange(5))
    assert len(ids) == 0
    assert {problem.reason for problem in problems} == {"the model's features of it are all zero"}


def test_an_image_whose_features_are_not_finite_is_left_out(tmp_path):
    """The logarithm of the mean of a channel that is darker than the average, for example."""
    file = write_odd_model(tmp_path / "m.onnx", make_node("Log", ["means"], ["odd"]))
    for name, color in (("bright", "white"), ("dark", "black")):
        Image.new("RGB", (9, 9), color).save(tmp_path / f"{name}.png")
    source = source_from(f"onnx:{file}:{tmp_path}", use_classes=False)
    _, ids, (problem,) = compute(source, np.arange(2))
    assert source.names(ids) == ["bright.png"]
    assert (problem.name, problem.reason) == ("dark.png", "the model's features of it are not finite")


def test_the_pool_is_the_same_for_any_number_of_threads(model, photos, tmp_path):
    """And it can be opened, and described, and continued."""
    source = source_from(f"onnx:{model}:{photos}")
    pools = [small_pool(tmp_path / str(n), source, threads=n) for n in (1, 3)]
    assert contents(pools[0].path) == contents(pools[1].path)
    pool = Pool.open(pools[0].path)
    assert (pool.n_features, pool.complete) == (N_FEATURES, True)
    X, ids, _ = compute(source, pool.ids)
    assert np.array_equal(ids, pool.ids)
    assert np.array_equal(X, pool.rows(np.arange(len(pool))))
    Image.new("RGB", (9, 9), "red").save(photos / "ant" / "new.png")
    grown = build(source_from(f"onnx:{model}:{photos}"), pool.path)
    assert len(grown) == len(pool) + 1 or len(grown.held_out) > len(pool.held_out)
    assert np.array_equal(grown.ids[: len(pool)], pool.ids)


def test_the_model_is_needed_for_new_features_alone(model, photos, tmp_path):
    """Without it, or with another in its place, the pool opens and shows its images."""
    pool = small_pool(tmp_path / "pool", source_from(f"onnx:{model}:{photos}"))
    image = Image.new("RGB", (30, 20), "orange")
    before = of_image(image, pool.source)
    reopened = Pool.open(pool.path)
    assert np.array_equal(of_image(image, reopened.source), before)
    write_model(model / "model.onnx", outputs=("image_embeds", "logits"), seed=1)
    changed = Pool.open(pool.path)
    assert changed.source.image(int(changed.ids[0]), 50).size
    assert changed.source.describes_images
    with pytest.raises(InputError, match=r"model\.onnx has changed since the pool was made"):
        of_image(image, changed.source)
    (model / "model.onnx").unlink()
    with pytest.raises(InputError, match="there is no model"):
        of_image(image, Pool.open(pool.path).source)
    assert Pool.open(pool.path).feature_kind == pool.feature_kind


def test_a_pool_is_not_continued_with_another_model(model, tmp_path):
    """Not with other weights, another output, or images prepared in another way."""
    build(source_from(f"onnx:{model}:digits:50"), tmp_path / "pool")
    with pytest.raises(InputError, match="output image_embeds of"):
        build(source_from(f"onnx:{model}#logits:digits:60"), tmp_path / "pool")
    with pytest.raises(InputError, match=r"belongs to|does not continue"):
        build(source_from("digits:60"), tmp_path / "pool")
    write_model(model / "model.onnx", outputs=("image_embeds", "logits"), seed=1)
    with pytest.raises(InputError, match="come from another model than"):
        build(source_from(f"onnx:{model}:digits:60"), tmp_path / "pool")


def test_only_the_same_model_used_alike_shares_a_hyperplane(model, tmp_path):
    """Features of other models mean something else."""
    kinds = [
        build(source_from(word), tmp_path / str(number)).feature_kind
        for number, word in enumerate(
            (
                f"onnx:{model}:digits:50",
                f"onnx:{model}:digits:60",
                f"onnx:{model}#logits:digits:50",
                "digits:50",
            )
        )
    ]
    assert kinds[0] == kinds[1]
    assert len(set(kinds)) == 3


def test_halves_are_stored_on_request(model, tmp_path):
    """By an option of the command."""
    word = f"onnx:{model}:digits:50"
    assert (
        CliRunner()
        .invoke(main, ["pool", "build", word, "--out", f"{tmp_path}/p", "--dtype", "float16"])
        .exit_code
        == 0
    )
    pool = Pool.open(tmp_path / "p")
    whole = build(source_from(word), tmp_path / "whole")
    assert pool.dtype == np.float16
    assert np.allclose(pool.rows(np.arange(5)), whole.rows(np.arange(5)), rtol=0, atol=1e-3)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_4096_features_from_the_model_to_the_selection(tmp_path, dtype):
    """Items are selected as by brute force in float64, on the stored features and a hyperplane of labels."""
    file = write_model(tmp_path / "m.onnx", outputs=("logits",), n_logits=4096)
    pool = build(source_from(f"onnx:{file}:digits:150"), tmp_path / "pool", dtype=dtype)
    assert (pool.n_features, pool.dtype) == (4096, dtype)
    X = pool.rows_of(pool.ids).astype(np.float64)
    assert np.allclose(np.linalg.norm(X, axis=1), 1, atol=1e-3)
    labeled = pool.ids[:40]
    plane = train(pool.rows_of(labeled), pool.truth(labeled) % 2 == 0, ids=labeled)
    margins = np.abs(X[40:] @ plane.normal + plane.bias)
    nearest = pool.ids[40:][np.argsort(margins, kind="stable")]
    for name in ("exhaustive", "margin-index"):
        selection = make_strategy(name).fit(pool).select(plane, 5, exclude=labeled)
        assert selection.ids.tolist() == nearest[:5].tolist()


KILLS = scaled(quick=2, all=20, long=100)


@pytest.mark.slow
def test_a_killed_builder_goes_on_to_the_same_bytes(model, photos, tmp_path):
    """Killed −9 at random moments, at last as one that nobody disturbed: features, digests and problems."""
    word = f"onnx:{model}:enlarged:10:{photos}"
    whole = small_pool(tmp_path / "whole", source_from(word))
    for path in killed_pools(word, tmp_path, KILLS, longest=0.2):
        assert contents(path) == contents(whole.path)


def test_folders_of_old_pools_are_read_as_before(tmp_path):
    """A source without a model has no model's features."""
    Image.new("RGB", (9, 9)).save(tmp_path / "a.png")
    assert Folder(tmp_path).features_of_image(Image.new("RGB", (9, 9))) is None
