from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from scipy.ndimage import map_coordinates
from sklearn.datasets import load_digits
from sklearn.svm import LinearSVC

from closecall.core.errors import InputError
from closecall.core.features import compute
from closecall.core.pool.build import build
from closecall.core.sources import Digits, glyphs, open_source
from closecall.core.sources.enlarged import Enlarged
from closecall.core.sources.glyphs import BLOCK, SIDE, bundled


@pytest.fixture(scope="module")
def digits() -> Digits:
    """A thousand digits to select from, and two hundred held out."""
    return Digits(1000)


def test_the_handwriting_is_scikit_learns() -> None:
    """Its file is read without importing it: the same images, and the same digits."""
    images, digits = glyphs._scanned()
    expected = load_digits()
    np.testing.assert_array_equal(images, expected.images)
    np.testing.assert_array_equal(digits, expected.target)


def test_held_out_digits_come_first_and_share_no_original(digits: Digits) -> None:
    """The first ids are held out, and none of the bundled digits is drawn on both sides."""
    assert digits.held_out().tolist() == list(range(200))
    assert len(digits) == 1200
    origins = digits._origin(np.arange(len(digits)))
    assert not set(origins[:200]) & set(origins[200:])


@pytest.mark.parametrize(("n_pool", "n_held_out"), [(1, 100), (1000, 200), (50_000, 10_000), (10**6, 10_000)])
def test_a_fifth_as_many_are_held_out_within_bounds(n_pool: int, n_held_out: int) -> None:
    """At least 100, at most 10,000."""
    assert len(Digits(n_pool).held_out()) == n_held_out


def test_a_grown_source_begins_with_the_same_items(digits: Digits) -> None:
    """Drawing more digits changes neither those before nor which are held out."""
    grown = Digits(3000, n_held_out=digits.n_held_out)
    items = np.array([0, 199, 200, 1199])
    assert (grown.grey(items)[0] == digits.grey(items)[0]).all()
    assert (grown.held_out() == digits.held_out()).all()
    assert len(grown) == 3200


def test_truth_is_the_original_digit(digits: Digits) -> None:
    """An item's class is that of the bundled digit it deforms, and all ten occur alike on both sides."""
    items = np.arange(len(digits))
    target = load_digits().target
    assert (digits.truth(items) == target[digits._origin(items)]).all()
    assert digits.classes == tuple("0123456789")
    assert np.bincount(digits.truth(items[200:]), minlength=10).min() > 50
    assert np.bincount(digits.truth(items[:200]), minlength=10).min() > 3


def test_seeds_draw_other_digits(digits: Digits) -> None:
    """Another seed gives other pictures, the same seed the same."""
    items = np.arange(200, 210)
    assert (Digits(1000, seed=0).grey(items)[0] == digits.grey(items)[0]).all()
    assert (Digits(1000, seed=1).grey(items)[0] != digits.grey(items)[0]).any(axis=(1, 2)).all()


def test_no_two_items_look_the_same(digits: Digits) -> None:
    """Every deformation is a picture of its own."""
    grey, problems = digits.grey(np.arange(len(digits)))
    assert problems == []
    assert len(np.unique(grey.reshape(len(grey), -1), axis=0)) == len(grey)


def test_every_size_shows_the_same_drawing(digits: Digits) -> None:
    """A drawing at 32 pixels is what a large one looks like from afar, and what features see."""
    items = np.arange(200, 230)
    grey, _ = digits.grey(items)
    for row, item in enumerate(items):
        small = np.asarray(digits.image(int(item), 32), dtype=np.float32) / 255
        assert np.abs(small - grey[row]).max() <= 0.5 / 255 + 1e-6
        large = np.asarray(digits.image(int(item), 256), dtype=np.float32) / 255
        assert large.shape == (256, 256)
        from_afar = large.reshape(32, 8, 32, 8).mean(axis=(1, 3))
        assert np.abs(from_afar - grey[row]).mean() < 0.01


def drawn_plainly(digits: Digits, item: int, size: int) -> np.ndarray:
    """The ink of every pixel without texture, from the field at the pixel and at its neighbors."""
    items = np.array([item])
    origin, shapes = digits._origin(items), bundled()
    p = digits._deformations(items, shapes.half_widths[origin])[0].astype(np.float64)
    at = (2 * np.arange(size + 2) - 1) / size - 1
    y, x = np.meshgrid(at, at, indexing="ij")
    rows = p[0] + p[1] * y + p[2] * x + p[9] * np.sin(p[10] * x + p[11])
    columns = p[3] + p[4] * y + p[5] * x + p[6] * np.sin(p[7] * y + p[8])
    level = map_coordinates(shapes.fields[origin[0]], [rows, columns], order=3, prefilter=False, cval=-8)
    beyond = (np.minimum(rows, columns) < 1) | (np.maximum(rows, columns) >= 38)
    level[beyond] = -8
    slope = np.hypot(level[2:, 1:-1] - level[:-2, 1:-1], level[1:-1, 2:] - level[1:-1, :-2]) / 2
    return np.clip((level[1:-1, 1:-1] - p[12]) / (slope + 1e-6) + 0.5, 0, 1)


@pytest.mark.parametrize(("size", "n"), [(40, 20), (100, 40), (264, 10), (560, 5)])
def test_no_part_of_a_digit_is_left_out(digits: Digits, size: int, n: int) -> None:
    """In larger pictures, parts without ink are found in advance."""
    for item in range(200, 200 + n):
        plain = drawn_plainly(digits, item, size)
        picture = np.asarray(digits.image(item, size), dtype=np.float32) / 255
        ink = plain > 0.1
        assert (picture[ink] > 0.5 * plain[ink]).all()
        assert (picture <= plain + 0.02).all()


def test_strokes_are_crisp_and_inside_the_picture(digits: Digits) -> None:
    """At display size nearly every pixel is ink or black, and the outermost are black."""
    for item in range(200, 230):
        picture = np.asarray(digits.image(item, 512), dtype=np.float32)
        between = (picture > 10) & (picture < 190)
        assert between.mean() < 0.02
        assert 0.02 < (picture > 190).mean() < 0.5
        edge = np.concatenate([picture[0], picture[-1], picture[:, 0], picture[:, -1]])
        assert (edge > 0).mean() < 0.05


def test_shapes_hold_the_ink_that_was_scanned() -> None:
    """Counted in blocks, the smooth shapes have the ink of the 8×8 originals, on average to 1/20."""
    shapes = bundled()
    ink = (1 / (1 + np.exp(-2 * shapes.fields))).reshape(-1, 10, BLOCK, 10, BLOCK).mean(axis=(2, 4))
    scanned = np.pad(load_digits().images / 16, ((0, 0), (1, 1), (1, 1)))
    assert np.abs(ink - scanned).mean() < 0.05
    assert np.corrcoef(ink.ravel(), scanned.ravel())[0, 1] > 0.97


@pytest.mark.slow
def test_the_task_is_real_but_can_be_learned() -> None:
    """A linear SVM on 2,000 digits tells sevens from the rest among held-out ones, with some errors."""
    digits = Digits(10_000)
    X, ids, _ = compute(digits, np.arange(2000, 4000))
    held_out, held_out_ids, _ = compute(digits, digits.held_out())
    svm = LinearSVC(C=1).fit(X, digits.truth(ids) == 7)
    accuracy = svm.score(held_out, digits.truth(held_out_ids) == 7)
    assert 0.965 < accuracy < 0.998


def test_another_drawing_is_refused(digits: Digits) -> None:
    """A pool drawn by another version of the drawing is not shown with this one's pictures."""
    spec = json.loads(json.dumps(digits.spec()))
    spec["drawing"] += 1
    with pytest.raises(InputError, match="build the pool again"):
        open_source(spec)


@pytest.mark.parametrize("item", [-1, 1200])
def test_there_is_no_other_item(digits: Digits, item: int) -> None:
    """An id outside the source is refused with the range that is allowed."""
    with pytest.raises(InputError, match=f"from 0 to 1199 .* got {item}"):
        digits.image(item, 32)


def test_a_digit_is_needed() -> None:
    """A pool of no digits is refused."""
    with pytest.raises(InputError, match="at least 1 item, got 0"):
        Digits(0)


def test_a_pool_of_digits_can_grow(tmp_path: Path) -> None:
    """More digits join at the end; the held-out ones stay those that it began with."""
    small = build(Digits(700), tmp_path / "pool")
    grown = build(Digits(900), tmp_path / "pool")
    assert len(grown) == 900
    assert np.array_equal(grown.ids[:700], small.ids)
    assert np.array_equal(grown.held_out.ids, small.held_out.ids)


def test_shapes_are_made_once_however_many_ask_at_the_same_time(monkeypatch):
    """Twenty pages open when a server is started, and each shows a digit."""
    made = []

    def slowly(ink):
        made.append(len(ink))
        time.sleep(0.001)
        return np.zeros((len(ink), SIDE, SIDE), dtype=np.float32)

    glyphs._made.cache_clear()
    monkeypatch.setattr(glyphs, "fields", slowly)
    try:
        with ThreadPoolExecutor(8) as threads:
            found = list(threads.map(lambda _: bundled(), range(8)))
    finally:
        glyphs._made.cache_clear()
    assert sum(made) == len(found[0].digits)
    assert all(np.shares_memory(one.fields, found[0].fields) for one in found)


def test_a_prepared_digit_is_drawn_from_what_is_there(monkeypatch):
    """Whatever source the digits are in; an error of `go_on` ends the preparation before its next part."""
    glyphs._made.cache_clear()
    digits, steps = Enlarged(Digits(50), 100), []
    with pytest.raises(ZeroDivisionError):
        digits.prepare(lambda: steps.append(1 / (3 - len(steps))))
    assert 0 < np.count_nonzero(glyphs._made()._is_there) == 3
    digits.prepare(lambda: None)
    with monkeypatch.context() as patched:
        patched.setattr(glyphs, "fields", lambda _: pytest.fail("a shape was missing"))
        digits.image(160, 28)


def test_a_digit_is_drawn_without_the_shapes_of_the_others(monkeypatch):
    """And looks as if all shapes had been made before."""
    everything = bundled()
    made, fields = [], glyphs.fields
    glyphs._made.cache_clear()
    monkeypatch.setattr(glyphs, "fields", lambda ink: (made.append(len(ink)), fields(ink))[1])
    some = bundled(np.array([1000]))
    assert 0 < sum(made) < 40
    assert np.array_equal(some.fields[1000], everything.fields[1000])
    assert some.half_widths[1000] == everything.half_widths[1000]
