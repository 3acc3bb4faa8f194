from __future__ import annotations

import numpy as np
import pytest

from closecall.core.errors import InputError
from closecall.core.experiment.sampled import SampledConcept
from closecall.core.experiment.stopping import _test_items, advised_sessions
from closecall.core.pool.build import build
from closecall.core.simulation.drawing import ItemsByClass
from tests.fakes import FakeSource


class PartlyKnown(FakeSource):
    """A source that does not know the class of its first 200 items."""

    def truth(self, items):
        return np.where(np.asarray(items) < 200, np.int16(-1), super().truth(items))


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    source = FakeSource(2400, 8, classes=("a", "b", "c"), held_out=range(0, 2400, 8), lean=1.0)
    return build(source, tmp_path_factory.mktemp("stopping") / "pool")


def advised(pool, n=3, **options):
    options = {"n_items": 900, "n_labels": 200, "batch": 10} | options
    return list(advised_sessions(pool, n, **options))


def test_what_is_lost_and_saved_is_counted_from_the_advice(pool):
    """To the end of the session; where the advice never came nothing is."""
    for session in advised(pool, enough=0.5):
        assert session.stop is not None
        assert session.saved == 200 - session.n_labels[session.stop] > 0
        assert session.lost == session.auroc[-1] - session.auroc[session.stop]
        assert session.reason.startswith("More labels hardly change it")
    for session in advised(pool, enough=1.0, n_labels=100):
        assert (session.stop, session.saved, session.lost) == (None, 0, 0.0)


def test_checkpoints_lead_from_the_first_labels_to_the_last(pool):
    """A quarter more labels each, or 20, rounded up to whole batches, and the end."""
    for session in advised(pool):
        assert session.n_labels == (6, 26, 46, 66, 86, 116, 146, 186, 200)
        assert len(session.auroc) == 9
        assert session.auroc[-1] > 0.8


def test_classes_take_turns(pool):
    """Each is asked for once before any comes again."""
    assert sorted(session.positive for session in advised(pool, n_labels=20)) == [0, 1, 2]


def test_auroc_is_of_items_that_were_not_asked_about(pool, tmp_path):
    """Of the held-out items where these have both kinds, otherwise of others."""
    rng = np.random.default_rng(0)
    concept = SampledConcept.draw(pool, ItemsByClass(pool), 1, 900, rng)
    X, truth = _test_items(pool, concept, 1, rng)
    assert np.array_equal(X, pool.held_out.X)
    assert np.array_equal(truth, pool.held_out.truth == 1)
    none_held_out = build(FakeSource(600, 4), tmp_path / "pool")
    concept = SampledConcept.draw(none_held_out, ItemsByClass(none_held_out), 1, 400, rng)
    X, truth = _test_items(none_held_out, concept, 1, rng)
    others = np.setdiff1d(none_held_out.ids, concept.items)
    assert np.array_equal(X, none_held_out.rows_of(others))
    assert np.array_equal(truth, none_held_out.truth(others) == 1)
    with pytest.raises(InputError, match="too few items to measure AUROC"):
        list(advised_sessions(none_held_out, 1, n_items=600, n_labels=20))


def test_auroc_is_of_held_out_items_of_known_class(tmp_path):
    """Each with its own truth, wherever the items of unknown class are."""
    pool = build(PartlyKnown(600, 8, separation=0.0, held_out=range(0, 600, 4)), tmp_path / "pool")
    rng = np.random.default_rng(0)
    concept = SampledConcept.draw(pool, ItemsByClass(pool), 1, 200, rng)
    X, truth = _test_items(pool, concept, 1, rng)
    known = pool.held_out.truth >= 0
    assert 0 < np.count_nonzero(known) < len(known)
    assert np.array_equal(X, pool.held_out.X[known])
    assert np.array_equal(truth, pool.held_out.truth[known] == 1)


def test_the_seed_decides_and_sessions_do_not_meddle(pool):
    """The same seed gives the same sessions, however many there are."""
    assert advised(pool, 1, seed=4) == advised(pool, 2, seed=4)[:1]
    assert advised(pool, 1, seed=4) != advised(pool, 1, seed=5)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"n_labels": 901}, "901 answers need as many items, got 900"),
        ({"batch": 0}, "batch must be at least 1, got 0"),
        ({"n_items": 2101}, "n_items must be at most 2100 in the pool"),
        ({"least": 0.6}, "needs at least two classes with 1260 items"),
    ],
)
def test_what_cannot_be_simulated_is_refused(pool, options, sentence):
    """In one sentence each."""
    with pytest.raises(InputError, match=sentence):
        advised(pool, **options)
