from __future__ import annotations

import numpy as np
import pytest

from closecall.core.duplicates import Groups
from closecall.core.errors import InputError
from closecall.core.experiment.duplicates import (
    COPIES,
    PRECISION,
    RECALL,
    Frames,
    Pairs,
    choose_angle,
    copies,
    copy_pairs,
    frame_pairs,
    group_rates,
    halves,
    rates,
)
from closecall.core.features import compute
from closecall.core.linear.hyperplane import unit_rows
from closecall.core.sources import source_from


def drawn(overlap: float, n: int = 2000) -> Pairs:
    """A tenth of the pairs near, with angles below 1 but for an overlap; many angles are equal."""
    rng = np.random.default_rng(0)
    near = rng.random(n) < 0.1
    angles = np.where(near, rng.random(n) * (1 + overlap), 1 + 2 * rng.random(n))
    return Pairs(np.round(angles, 2), near)


@pytest.mark.parametrize("overlap", [0.0, 0.3, 3.0])
def test_the_chosen_angle_is_that_of_the_rule(overlap):
    """Held against all angles that occur."""
    pairs = drawn(overlap)
    each = {angle: rates(pairs, angle) for angle in np.unique(pairs.angles)}
    precise = {angle: one for angle, one in each.items() if one.precision >= PRECISION and one.n_right}
    enough = [angle for angle, one in precise.items() if one.recall >= RECALL]
    angle = choose_angle(pairs)
    if enough:
        assert angle == min(enough)
    else:
        assert precise
        assert each[angle].recall == max(one.recall for one in precise.values())
        assert angle in precise


def test_without_a_precise_angle_f1_decides():
    """If the nearest pairs are false."""
    pairs = Pairs(np.array([0.1, 0.2, 0.3, 0.9]), np.array([False, True, True, True]))
    assert choose_angle(pairs) == 0.9
    with pytest.raises(InputError, match="no pair is a near-duplicate"):
        choose_angle(Pairs(np.array([0.1]), np.array([False])))


def test_rates_count_pairs():
    """With the angle itself."""
    found = rates(Pairs(np.array([0.1, 0.2, 0.3, 0.4]), np.array([True, False, True, True])), 0.3)
    assert (found.n_near, found.n_found, found.n_right) == (3, 3, 2)
    assert (found.recall, found.precision) == (2 / 3, 2 / 3)


def test_names_of_frames():
    """As in Fruits-360: with an axis, or with none for the first."""
    frames = Frames.of(["Apple/Apple 7/r0_12_100.jpg", "Apple/Apple 7/3_100.jpg", "a/r_007.png"])
    assert frames.kinds.tolist() == ["Apple/Apple 7", "Apple/Apple 7", "a"]
    assert frames.axes.tolist() == ["r0", "", "r"]
    assert frames.numbers.tolist() == [12, 3, 7]


@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [
        ("(", "is not a regular expression"),
        ("(?P<kind>.*)(?P<axis>.*)", r"needs a group \(\?P<frame>"),
        ("(?P<kind>x)(?P<axis>x)(?P<frame>x)", "a/1.jpg does not match the pattern"),
    ],
)
def test_a_pattern_that_does_not_fit(pattern, sentence):
    """One sentence."""
    with pytest.raises(InputError, match=sentence):
        Frames.of(["a/1.jpg"], pattern)


def test_pairs_of_frames():
    """Near within one turn, at most k apart; in order, at most k places apart in the folder."""
    names = ["k/r0_1.jpg", "k/r0_2.jpg", "k/r0_9.jpg", "k/r1_1.jpg", "m/r0_1.jpg"]
    pairs = frame_pairs(np.eye(5, dtype=np.float32), names, Frames.of(names), 1)
    upper = np.stack(np.triu_indices(5, 1), axis=1)
    assert upper[pairs.pairs.near].tolist() == [[0, 1]]
    assert upper[pairs.same_turn].tolist() == [[0, 1], [0, 2], [1, 2]]
    assert upper[pairs.following].tolist() == [[0, 1], [1, 2], [2, 3]]
    assert np.allclose(pairs.pairs.angles, np.pi / 2)


def test_rates_of_groups_count_pairs_in_one_group():
    """Near pairs count for recall; for precision, two frames of one turn are right, however far apart."""
    names = ["k/r0_1.jpg", "k/r0_2.jpg", "k/r0_9.jpg", "k/r0_10.jpg", "k/r1_1.jpg", "m/r0_1.jpg"]
    pairs = frame_pairs(np.eye(6, dtype=np.float32), names, Frames.of(names), 1)
    found = group_rates(pairs, Groups(np.array([0, 0, 0, 3, 4, 4]), np.zeros(6, dtype=np.float32)))
    assert found == (2, 4, 1, 3)
    assert (found.recall, found.precision) == (1 / 2, 3 / 4)


def test_every_other_kind_is_chosen():
    """In order of their names; one kind has no halves."""
    chosen, others = halves(np.array(["b", "a", "c", "a"]))
    assert (chosen.tolist(), others.tolist()) == ([1, 2, 3], [0])
    with pytest.raises(InputError, match="at least two kinds"):
        halves(np.array(["a", "a"]))


@pytest.mark.parametrize("way", COPIES)
def test_copies_are_nearest_to_their_originals(way):
    """Of drawn digits, for most."""
    source = source_from("digits:200")
    items = np.arange(40)
    X = unit_rows(np.array(copies(source, items, way)))
    originals = compute(source, items)[0]
    pairs = copy_pairs(originals, X)
    angles = pairs.angles.reshape(40, 40)
    assert pairs.near.sum() == 40
    assert (angles.argmin(axis=0) == np.arange(40)).mean() > 0.9


def test_a_source_that_describes_no_images(tmp_path):
    """Copies of texts or embeddings have no features."""
    np.save(tmp_path / "x.npy", np.eye(5, dtype=np.float32))
    with pytest.raises(InputError, match="copies can't be described"):
        copies(source_from(f"vectors:{tmp_path / 'x.npy'}"), np.arange(2), "cropped")
