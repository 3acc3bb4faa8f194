from __future__ import annotations

from itertools import groupby, pairwise

import numpy as np
import pytest

from closecall.core.errors import InputError
from closecall.core.experiment import Oracle
from closecall.core.experiment.simulation import labels_before, sessions
from closecall.core.learning.round import Labels, learn
from closecall.core.linear.svm import train
from closecall.core.pool.build import build
from closecall.core.selection import make_strategy
from tests.contract.kit import LowestIdFirst
from tests.fakes import FakeSource

SVMS = {
    "C=1, unweighted": (1.0, None),
    "C=10, unweighted": (10.0, None),
    "C=1, balanced": (1.0, "balanced"),
    "C=10, balanced": (10.0, "balanced"),
}


class PartlyKnown(FakeSource):
    """A source that does not know the class of its first ten items."""

    def truth(self, items):
        return np.where(np.asarray(items) < 10, np.int16(-1), super().truth(items))


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    source = FakeSource(700, 8, classes=("a", "b", "c"), held_out=range(0, 700, 7), lean=1.0)
    return build(source, tmp_path_factory.mktemp("sessions") / "pool")


@pytest.fixture(scope="module")
def planes(pool):
    """Twelve sessions, the smallest number in which each SVM has two without noise and one with."""
    return sessions(pool, 12, 40, noise=0.3, seed=3)


def by_session(planes):
    return [list(found) for _, found in groupby(planes, key=lambda plane: plane.session)]


def asked(earlier, later):
    """The item that was asked about between two rounds."""
    (item,) = np.setdiff1d(later.labeled, earlier.labeled)
    assert len(later.labeled) == len(earlier.labeled) + 1
    return int(item)


def test_sessions_and_rounds_are_in_order(planes):
    """All rounds of session 0 come first, then those of session 1."""
    expected = [(session, number) for session in range(12) for number in range(40)]
    assert [(plane.session, plane.round) for plane in planes] == expected


def test_a_session_begins_with_one_yes_and_five_no(pool, planes):
    """Six labels, one of them of the session's class; each round adds one."""
    for session in by_session(planes):
        yes = pool.truth(session[0].labeled) == session[0].positive
        assert (len(yes), yes.sum()) == (6, 1)
        assert [len(plane.labeled) for plane in session] == list(range(6, 46))
        assert len({plane.positive for plane in session}) == 1


def test_every_selection_is_the_nearest(pool, planes):
    """The item labeled after a round is the nearest to its hyperplane in float64, labeled ones left out."""
    X = pool.rows_of(pool.ids)
    for session in by_session(planes):
        for plane, later in pairwise(session):
            margins = np.abs(plane.hyperplane.scores(X))
            margins[pool.row_of(plane.labeled)] = np.inf
            assert asked(plane, later) == pool.ids[margins.argmin()]


def test_every_hyperplane_is_trained_on_the_answers(pool, planes):
    """A replay with the annotator that the docstring names gives every hyperplane, bit for bit."""
    for session in by_session(planes):
        noise = 0.3 if session[0].setting.endswith("30 % wrong") else 0.0
        C, class_weight = SVMS[session[0].setting.removeprefix("sessions: ").removesuffix(", 30 % wrong")]
        positive = session[0].positive
        oracle = Oracle(pool.truth, positive, noise=noise, seed=3 + session[0].session)
        first = session[0].labeled
        for plane in session:
            y = oracle(plane.labeled)
            y[np.isin(plane.labeled, first)] = pool.truth(first) == positive
            X = pool.rows_of(plane.labeled)
            again = train(X, y, plane.labeled, C=C, class_weight=class_weight)
            assert again.digest == plane.hyperplane.digest


def test_a_third_of_the_sessions_has_noise(planes):
    """Each SVM has two sessions that are answered rightly and one that is not, and the name says so."""
    settings = [session[0].setting for session in by_session(planes)]
    names = [f"sessions: {svm}" for svm in SVMS]
    assert sorted(settings) == sorted(2 * names + [f"{name}, 30 % wrong" for name in names])
    assert len(set(settings[:4])) == 4


def test_noise_is_the_share_of_wrong_answers(pool, planes):
    """In noisy sessions as many answers are wrong as asked for (to five sigma), in the others none."""
    wrong, right_sessions = [], 0
    for session in by_session(planes):
        items = np.array([asked(plane, later) for plane, later in pairwise(session)])
        noisy = session[0].setting.endswith("wrong")
        right_sessions += not noisy
        if noisy:
            positive = session[0].positive
            oracle = Oracle(pool.truth, positive, noise=0.3, seed=3 + session[0].session)
            wrong += (oracle(items) != (pool.truth(items) == positive)).tolist()
    assert right_sessions == 8
    assert abs(np.mean(wrong) - 0.3) < 5 * np.sqrt(0.3 * 0.7 / len(wrong))


def test_without_noise_all_sessions_are_right(pool):
    """Noise 0 leaves four settings."""
    assert {plane.setting for plane in sessions(pool, 12, 1, noise=0)} == {f"sessions: {s}" for s in SVMS}


def test_the_seed_decides_and_sessions_do_not_meddle(pool, planes):
    """The same seed gives the same sessions, however many run beside them and however long."""
    fewer = sessions(pool, 10, 7, noise=0.3, seed=3)
    same = [plane for plane in planes if plane.session < 10 and plane.round < 7]
    assert [p.hyperplane.digest for p in fewer] == [p.hyperplane.digest for p in same]
    assert [p.setting for p in fewer] == [p.setting for p in same]
    other = sessions(pool, 10, 7, noise=0.3, seed=4)
    assert not {p.hyperplane.digest for p in fewer} & {p.hyperplane.digest for p in other}


def test_another_strategy_may_ask(pool):
    """What a session is asked about is what the given strategy selects."""
    planes = sessions(pool, 2, 9, strategy=LowestIdFirst().fit(pool))
    for session in by_session(planes):
        for plane, later in pairwise(session):
            assert asked(plane, later) == np.setdiff1d(pool.ids, plane.labeled)[0]


def test_a_random_strategy_asks_each_session_something_else(pool):
    """Sessions draw seeds of their own, round by round, and the same ones again."""
    strategy = make_strategy("random").fit(pool)
    planes = sessions(pool, 2, 9, strategy=strategy, seed=1)
    one, other = ([asked(*pair) for pair in pairwise(session)] for session in by_session(planes))
    assert not set(one) & set(other)
    again = sessions(pool, 2, 9, strategy=strategy, seed=1)
    assert [p.hyperplane.digest for p in again] == [p.hyperplane.digest for p in planes]


def test_progress_counts_hyperplanes(pool):
    """After every round of all sessions it is told how many are done, of how many."""
    said: list[tuple[int, int]] = []
    sessions(pool, 3, 4, progress=lambda done, of: said.append((done, of)))
    assert said == [(3, 12), (6, 12), (9, 12), (12, 12)]


def test_bad_input_is_refused(pool, tmp_path):
    """Noise that is no probability, unknown classes, and pools that are too small, in a sentence each."""
    with pytest.raises(InputError, match=r"noise must be a probability from 0 to 1, got 1\.5"):
        sessions(pool, 1, 1, noise=1.5)
    small = build(FakeSource(30, 4), tmp_path / "small")
    assert len(sessions(small, 1, 24)) == 24
    with pytest.raises(InputError, match=rf"25 rounds need 31 items, the pool {small.path} has 30"):
        sessions(small, 1, 25)
    unknown = build(FakeSource(30, 4, classes=()), tmp_path / "unknown")
    with pytest.raises(InputError, match="needs at least two classes with 1 item of known truth"):
        sessions(unknown, 1, 1)
    partly = build(PartlyKnown(60, 4, separation=0.0), tmp_path / "partly")
    with pytest.raises(InputError, match=rf"the class of 10 items of the pool {partly.path} is unknown"):
        sessions(partly, 1, 1)


def test_a_session_may_begin_with_many_labels(pool):
    """Right ones; a fifth of them random, the others nearest to what these teach; its name tells."""
    planes = sessions(pool, 4, 3, n_before=100, noise=0.0, seed=2)
    X = pool.rows_of(pool.ids)
    assert {plane.setting for plane in planes} == {f"sessions: {svm}, after 100 labels" for svm in SVMS}
    for session in by_session(planes):
        assert [len(plane.labeled) for plane in session] == [100, 101, 102]
        C, class_weight = SVMS[session[0].setting.removeprefix("sessions: ").split(", after")[0]]
        y = pool.truth(session[0].labeled) == session[0].positive
        ids = session[0].labeled
        again = train(pool.rows_of(ids), y, ids, C=C, class_weight=class_weight)
        assert again.digest == session[0].hyperplane.digest
    labels = labels_before(pool, 1, 100, np.random.default_rng(5))
    first, near = labels.ids[:20], labels.ids[20:]
    margins = np.abs(learn(Labels.of(pool, first, labels.y[:20])).hyperplane.scores(X))
    margins[pool.row_of(first)] = np.inf
    assert set(near) == set(pool.ids[np.argsort(margins)[:80]])
    assert len(labels_before(pool, 1, 1, np.random.default_rng(5))) == 1


def test_many_labels_have_a_yes_and_a_no(tmp_path):
    """However rare or frequent the class is, as long as there are items of both kinds."""
    few = build(FakeSource(600, 4, priors=(0.005, 0.995)), tmp_path / "few")
    truth = few.truth(few.ids)
    assert 1 <= np.count_nonzero(truth == 0) <= 6
    for n in (2, 5, 20, 60):
        for positive in (0, 1):
            for seed in range(10):
                labels = labels_before(few, positive, n, np.random.default_rng(seed))
                assert len(set(labels.ids.tolist())) == n
                assert np.array_equal(labels.y, few.truth(labels.ids) == positive)
                assert {*labels.y.tolist()} == {True, False}
    assert len(sessions(few, 4, 2, n_before=20, noise=0.0)) == 8
    with pytest.raises(InputError, match="n_before must be 0, or at least 2 for a yes and a no, got 1"):
        sessions(few, 1, 1, n_before=1)
    source = FakeSource(40, 4)
    gone = build(
        FakeSource(40, 4, held_out=np.flatnonzero(source.truth(np.arange(40)) == 1)), tmp_path / "gone"
    )
    for positive, sentence in ((1, "has no item of the class yes"), (0, "has no item outside the class no")):
        with pytest.raises(InputError, match=sentence):
            labels_before(gone, positive, 9, np.random.default_rng(0))
