from __future__ import annotations

import numpy as np
import pytest

from closecall.core.experiment.sampled import Annotator, SampledConcept
from closecall.core.learning.round import Labels, learn
from closecall.core.pool.build import build
from closecall.core.simulation.drawing import ItemsByClass
from tests.fakes import FakeSource


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    source = FakeSource(900, 8, classes=("a", "b", "c"), held_out=range(0, 900, 9), lean=1.0)
    return build(source, tmp_path_factory.mktemp("sampled") / "pool")


def draw(pool, prevalence=None, seed=0, n=300):
    return SampledConcept.draw(
        pool, ItemsByClass(pool), 1, n, np.random.default_rng(seed), prevalence=prevalence
    )


@pytest.mark.parametrize("prevalence", [None, 0.1, 0.01])
def test_items_keep_their_features_and_their_truth(pool, prevalence):
    """They are different items of the pool, as many of them a yes as asked for."""
    concept = draw(pool, prevalence)
    assert len(np.unique(concept.items)) == 300
    assert np.allclose(concept.pool.rows(np.arange(300)), pool.rows_of(concept.items), atol=1e-6)
    assert np.array_equal(concept.y, pool.truth(concept.items) == 1)
    expected = 100 if prevalence is None else 300 * prevalence
    assert concept.y.sum() == pytest.approx(expected, abs=30 if prevalence is None else 0)


def test_every_item_is_as_likely(pool):
    """Over 300 draws each item of the pool comes about as often (to five sigma)."""
    times = np.zeros(900)
    for seed in range(300):
        times[draw(pool, seed=seed).items] += 1
    expected = 300 * 300 / len(pool)
    assert np.abs(times[pool.ids] - expected).max() < 5 * np.sqrt(expected * (1 - 300 / len(pool)))
    assert times.sum() == times[pool.ids].sum()


def test_the_annotator_answers_about_what_is_nearest(pool):
    """One answer after the other, each by a hyperplane of all before.

    Audited items are passed over: those that were nearer than the one that was answered about.
    """
    concept = draw(pool)
    annotator = Annotator(concept, np.random.default_rng(3))
    assert (len(annotator.rows), annotator.n_yes) == (6, 1)
    X = concept.pool.rows(np.arange(300))
    audited = np.setdiff1d(np.arange(0, 300, 2), annotator.rows)
    passed: set[int] = set()
    for _ in range(20):
        margins = np.abs(annotator.hyperplane.scores(X))
        unaudited = margins.copy()
        unaudited[np.union1d(annotator.rows, audited)] = np.inf
        before = annotator.rows
        annotator.go_on(audited=audited)
        assert annotator.rows.tolist() == [*before.tolist(), int(unaudited.argmin())]
        passed |= set(audited[margins[audited] < unaudited.min()].tolist())
        assert annotator.passed.tolist() == sorted(passed)
        again = learn(Labels(annotator.rows, X[annotator.rows], concept.y[annotator.rows]))
        assert again.hyperplane.digest == annotator.hyperplane.digest
    assert len(passed) > 3
    annotator.go_on(7)
    assert len(np.unique(annotator.rows)) == 33
    assert not passed & set(annotator.rows.tolist())
