from __future__ import annotations

import numpy as np
import pytest

from closecall.core.errors import InputError
from closecall.core.experiment.planes import PAPER, SINGLE_SETTINGS, one_vs_all, single_planes
from closecall.core.linear.svm import train
from closecall.core.pool.build import build
from closecall.core.simulation.drawing import ItemsByClass
from tests.fakes import FakeSource


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    """Three classes, one of them rare: 4 % of about 900 items, with gaps between the ids."""
    source = FakeSource(
        1000, 8, classes=("a", "b", "rare"), priors=(0.5, 0.46, 0.04), held_out=range(0, 1000, 10), lean=2.0
    )
    return build(source, tmp_path_factory.mktemp("planes") / "pool")


@pytest.fixture(scope="module")
def many_classes(tmp_path_factory):
    """Thirty classes of about twenty items."""
    source = FakeSource(600, 4, classes=tuple(f"class {i}" for i in range(30)))
    return build(source, tmp_path_factory.mktemp("planes") / "pool")


def test_planes_are_what_training_gives(pool):
    """Each setting has so many hyperplanes, and each one is the SVM of its labels, C and weights."""
    planes = single_planes(pool, 2, seed=1)
    assert [plane.setting for plane in planes] == [str(s) for s in SINGLE_SETTINGS for _ in range(2)]
    for plane, setting in zip(planes, np.repeat(SINGLE_SETTINGS, 2), strict=True):
        y = pool.truth(plane.labeled) == plane.positive
        trained = train(
            pool.rows_of(plane.labeled), y, plane.labeled, C=setting.C, class_weight=setting.class_weight
        )
        assert plane.hyperplane.digest == trained.digest
        assert (np.diff(plane.labeled) > 0).all()
        assert (plane.session, plane.round) == (-1, -1)


def test_every_setting_of_the_stick_is_there():
    """The paper's, and each C with each weighting and each number of labels."""
    names = [str(setting) for setting in SINGLE_SETTINGS]
    assert names[0] == str(PAPER) == "C=1, unweighted, 5 a class"
    crossed = {
        f"C={C}, {weight}, {n} labels"
        for C in ("0.1", "1", "10")
        for weight in ("unweighted", "balanced")
        for n in (50, 200, 400)
    }
    assert set(names[1:]) == crossed
    assert len(names) == 19


def test_the_papers_labels_are_five_a_class(pool):
    """Section 5.1: five examples of each class."""
    for plane in one_vs_all(pool, 6):
        assert np.bincount(pool.truth(plane.labeled)).tolist() == [5, 5, 5]


def test_of_many_classes_ten_are_seen(many_classes):
    """Where a pool has more classes than the paper's sets, five labels of the positive and of nine others."""
    seen = []
    for plane in one_vs_all(many_classes, 8):
        counts = np.bincount(many_classes.truth(plane.labeled), minlength=30)
        assert sorted(counts.tolist()) == [0] * 20 + [5] * 10
        assert counts[plane.positive] == 5
        seen.append(tuple(np.flatnonzero(counts)))
    assert len(set(seen)) == 8


def test_random_labels_hold_positives(pool):
    """At least a twentieth of labels drawn at random are a yes, and a no, however rare the class is."""
    planes = single_planes(pool, 6)
    assert {plane.positive for plane in planes} == {0, 1, 2}
    for plane in planes:
        n = len(plane.labeled)
        yes = np.count_nonzero(pool.truth(plane.labeled) == plane.positive)
        if plane.setting != str(PAPER):
            assert n in (50, 200, 400)
            assert -(-n // 20) <= yes <= n - -(-n // 20)


def test_a_frequent_class_is_drawn_plainly(pool):
    """Positives among n random labels are hypergeometric in mean and variance (to five sigma)."""
    items, n, draws = ItemsByClass(pool), 40, 2000
    share = np.mean(pool.truth(pool.ids) == 0)
    drawn = [items.at_random(np.random.default_rng(i), 0, n) for i in range(draws)]
    yes = np.array([np.count_nonzero(pool.truth(ids) == 0) for ids in drawn])
    variance = n * share * (1 - share) * (len(pool) - n) / (len(pool) - 1)
    assert abs(yes.mean() - n * share) < 5 * np.sqrt(variance / draws)
    assert yes.var() == pytest.approx(variance, rel=5 * np.sqrt(2 / draws))


def test_items_are_drawn_evenly_and_once(pool):
    """Each item of the class, and each of the others, is as likely as any other; none comes twice."""
    items, draws = ItemsByClass(pool), 3000
    truth = pool.truth(pool.ids)
    for draw, there, n in ((items.of, truth == 2, 5), (items.others, truth != 2, 50)):
        counts = np.zeros(len(pool))
        for i in range(draws):
            ids = draw(np.random.default_rng(i), 2, n)
            assert len(set(ids.tolist())) == n
            counts[pool.row_of(ids)] += 1
        assert not counts[~there].any()
        p = n / there.sum()
        assert np.abs(counts[there] / draws - p).max() < 5 * np.sqrt(p * (1 - p) / draws)


def test_classes_come_equally_often_in_random_order(many_classes):
    """No class is positive twice before all have been, so rare classes are asked for like the others."""
    positives = [plane.positive for plane in one_vs_all(many_classes, 60)]
    assert sorted(positives[:30]) == sorted(positives[30:]) == list(range(30))
    assert positives[:30] != list(range(30))
    assert positives[:30] != positives[30:]


def test_the_seed_decides(pool):
    """The same seed gives the same hyperplanes, fewer of them the first ones; another seed gives others."""
    three = single_planes(pool, 3, seed=5)
    two = single_planes(pool, 2, seed=5)
    digests = [plane.hyperplane.digest for plane in three]
    assert [plane.hyperplane.digest for plane in two] == [d for i, d in enumerate(digests) if i % 3 != 2]
    assert len(set(digests)) == len(digests)
    others = {plane.hyperplane.digest for plane in single_planes(pool, 2, seed=6)}
    assert not others & set(digests)


def test_settings_have_labels_of_their_own(pool):
    """No two settings share their draws, so that the hyperplanes of all of them together are independent."""
    firsts = [plane.labeled.tobytes() for plane in single_planes(pool, 1)]
    assert len(set(firsts)) == len(SINGLE_SETTINGS)


def test_progress_reaches_the_end(pool):
    """It is told how many hyperplanes are done, of how many."""
    said: list[tuple[int, int]] = []
    single_planes(pool, 2, progress=lambda done, of: said.append((done, of)))
    assert said == [(2 * (i + 1), 38) for i in range(19)]


def test_a_small_pool_is_refused(many_classes, tmp_path):
    """Too few items, too small classes or unknown ones are said in a sentence that names the pool."""
    with pytest.raises(InputError, match=r"needs at least two classes with 50 items of known truth"):
        one_vs_all(many_classes, 1, labels_per_class=50)
    few = build(FakeSource(120, 4), tmp_path / "few")
    with pytest.raises(InputError, match=rf"{few.path} needs 200 items of known truth, it has 120"):
        single_planes(few, 1)
    unknown = build(FakeSource(50, 4, classes=()), tmp_path / "unknown")
    with pytest.raises(InputError, match=r"needs at least two classes with 5 items of known truth"):
        single_planes(unknown, 1)
