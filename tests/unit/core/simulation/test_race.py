from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from closecall.core.errors import InputError
from closecall.core.learning.round import is_positive
from closecall.core.linear.svm import train
from closecall.core.pool.build import build
from closecall.core.selection import make_strategy
from closecall.core.simulation.race import Course, Race
from tests.contract.kit import LowestIdFirst
from tests.fakes import FakeSource
from tests.unit.core.experiment.test_sessions import PartlyKnown

NAMES = (
    "random",
    "subsample",
    "exhaustive",
    "h-hash-weighted",
    "eh-hash-weighted",
    "bh-hash-weighted",
    "margin-index",
)
COURSE = Course(positive=1, n_first=2, seed=4)


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    source = FakeSource(700, 8, classes=("a", "b", "c"), held_out=range(0, 700, 7), lean=1.0)
    return build(source, tmp_path_factory.mktemp("race") / "pool")


@pytest.fixture(scope="module")
def strategies(pool):
    return {name: make_strategy(name).fit(pool) for name in NAMES}


def run(race, rounds):
    return [turn for _ in range(rounds) for turn in race.step()]


def said(turn):
    """Everything but the times."""
    times = {name: 0.0 for name in vars(turn) if name.endswith("seconds")}
    return replace(turn, **times, hyperplane=turn.hyperplane.digest).__dict__


class Failing(LowestIdFirst):
    """Gives up, in a way of its own, when the third item is asked for."""

    def __init__(self, error, n_first):
        super().__init__()
        self._error, self._most = error, n_first + 2

    def choose(self, query):
        if len(query.exclude) >= self._most:
            raise self._error
        return super().choose(query)


def test_all_lanes_begin_with_the_same_right_labels(pool, strategies):
    """So many of each class, and the hyperplane that they teach."""
    race = Race(pool, strategies, COURSE)
    assert np.bincount(pool.truth(race.first.ids)).tolist() == [2, 2, 2]
    assert race.first.y.tolist() == is_positive(pool.truth(race.first.ids), 1).tolist()
    expected = train(race.first.X, race.first.y, race.first.ids).digest
    assert {lane.hyperplane.digest for lane in race.lanes} == {expected}
    assert [lane.name for lane in race.lanes] == list(NAMES)
    assert race.round == 0


def test_a_round_is_a_turn_of_each_lane(pool, strategies):
    """In their order, a label more each time, never an item that the lane has."""
    race = Race(pool, strategies, COURSE)
    for number in range(1, 13):
        turns = race.step()
        assert [turn.strategy for turn in turns] == list(NAMES)
        assert {(turn.round, turn.n_labels) for turn in turns} == {(number, 6 + number)}
    for lane in race.lanes:
        assert len(np.unique(lane.labels.ids)) == len(lane.labels) == 18
        assert lane.labels.ids[:6].tolist() == race.first.ids.tolist()


def test_every_figure_follows_from_the_labels(pool, strategies):
    """Margin, answer, hyperplane and AUROC of the last turn, computed afresh."""
    race = Race(pool, strategies, replace(COURSE, C=3.0, class_weight="balanced"))
    run(race, 9)
    before = {lane.name: lane.hyperplane for lane in race.lanes}
    for turn, lane in zip(race.step(), race.lanes, strict=True):
        assert turn.item == lane.labels.ids[-1]
        assert turn.margin == pytest.approx(abs(before[lane.name].scores(pool.rows_of([turn.item]))[0]))
        assert turn.answer == (pool.truth([turn.item])[0] == 1)
        labels = lane.labels
        expected = train(labels.X, labels.y, labels.ids, C=3.0, class_weight="balanced")
        assert turn.hyperplane.digest == lane.hyperplane.digest == expected.digest
        y, scores = pool.held_out.truth == 1, expected.scores(pool.held_out.X)
        assert turn.accuracy.auroc == pytest.approx(roc_auc_score(y, scores), abs=1e-6)
        assert turn.accuracy.average_precision == pytest.approx(average_precision_score(y, scores), abs=1e-6)
        assert turn.scored <= len(pool)
        assert turn.select_seconds > 0
        assert turn.train_seconds > 0


def test_ranks_are_counted_in_ever_rarer_rounds(pool, strategies):
    """In the rounds 1, 2, 4 and 8: the unlabeled items that are nearer than the selected one."""
    race = Race(pool, strategies, COURSE)
    for number in range(1, 12):
        before = [(lane.hyperplane, np.setdiff1d(pool.ids, lane.labels.ids)) for lane in race.lanes]
        for turn, (hyperplane, free) in zip(race.step(), before, strict=True):
            if number not in (1, 2, 4, 8):
                assert turn.rank is None
                continue
            margins = np.abs(hyperplane.scores(pool.rows_of(free)))
            assert turn.rank == np.count_nonzero(margins < margins[free == turn.item])
            assert turn.rank == 0 or turn.strategy != "exhaustive"


def test_the_exhaustive_lane_takes_the_nearest(pool, strategies):
    """By brute force, round by round."""
    race = Race(pool, {"exhaustive": strategies["exhaustive"]}, COURSE)
    for _ in range(10):
        (lane,) = race.lanes
        free = np.setdiff1d(pool.ids, lane.labels.ids)
        margins = np.abs(lane.hyperplane.scores(pool.rows_of(free)))
        (turn,) = race.step()
        assert turn.margin == pytest.approx(margins.min(), abs=1e-12)


def test_the_same_seed_gives_the_same_race(pool, strategies):
    """All but the times; another seed, class or run gives another one."""
    first = [said(turn) for turn in run(Race(pool, strategies, COURSE), 15)]
    assert [said(turn) for turn in run(Race(pool, strategies, COURSE), 15)] == first
    for other in (replace(COURSE, seed=5), replace(COURSE, run=1), replace(COURSE, positive=2)):
        assert [said(turn) for turn in run(Race(pool, strategies, other), 15)] != first


def test_a_lane_does_not_depend_on_the_others(pool, strategies):
    """Alone it runs as it does among seven."""
    together = run(Race(pool, strategies, COURSE), 15)
    for name in NAMES:
        alone = run(Race(pool, {name: strategies[name]}, COURSE), 15)
        assert [said(turn) for turn in alone] == [said(t) for t in together if t.strategy == name]


def test_noise_is_the_same_in_every_lane(pool, strategies):
    """About as many answers are wrong as was asked for, and lanes never contradict each other."""
    race = Race(pool, strategies, replace(COURSE, noise=0.3))
    turns = run(race, 100)
    truth = pool.truth([turn.item for turn in turns]) == 1
    wrong = {turn.item: turn.answer != true for turn, true in zip(turns, truth, strict=True)}
    assert len(wrong) < len(turns)
    assert all(wrong[turn.item] == (turn.answer != true) for turn, true in zip(turns, truth, strict=True))
    assert 0.2 < np.mean(list(wrong.values())) < 0.4
    assert race.first.y.tolist() == is_positive(pool.truth(race.first.ids), 1).tolist()


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (InputError("too many of them"), "too many of them"),
        (MemoryError(), "it ran out of memory"),
        (ValueError("bad shape"), "ValueError: bad shape"),
    ],
)
def test_a_lane_that_fails_leaves_the_others_alone(pool, strategies, error, reason):
    """It says why, and the rest of the race is as it would be without it."""
    failing = Failing(error, n_first=6).fit(pool)
    race = Race(pool, {"failing": failing, "h-hash-weighted": strategies["h-hash-weighted"]}, COURSE)
    turns = run(race, 5)
    assert [turn.round for turn in turns if turn.strategy == "failing"] == [1, 2]
    assert [lane.failure for lane in race.lanes] == [reason, None]
    alone = run(Race(pool, {"h-hash-weighted": strategies["h-hash-weighted"]}, COURSE), 5)
    assert [said(turn) for turn in turns if turn.strategy == "h-hash-weighted"] == [
        said(turn) for turn in alone
    ]
    assert not race.is_over


def test_an_exhausted_pool_ends_the_race(tmp_path):
    """When no lane can go on, it is over, and says why."""
    pool = build(FakeSource(20, 4, classes=("a", "b"), held_out=range(0, 20, 5)), tmp_path / "pool")
    strategies = {name: make_strategy(name).fit(pool) for name in ("random", "exhaustive")}
    race = Race(pool, strategies, replace(COURSE, n_first=1))
    turns = run(race, 20)
    assert len(turns) == 2 * (len(pool) - 2)
    assert race.is_over
    assert [lane.failure for lane in race.lanes] == ["Pool exhausted: 0 available, 1 requested"] * 2
    assert race.step() == []


def test_a_lane_that_takes_too_long_is_out(pool, strategies):
    """What it selected still counts."""
    race = Race(pool, {"exhaustive": strategies["exhaustive"]}, replace(COURSE, most_seconds=0.0))
    assert len(race.step()) == 1
    (lane,) = race.lanes
    assert "over the limit of 0 s" in lane.failure
    assert race.step() == []


def test_without_held_out_items_there_is_no_auroc(tmp_path):
    """All else goes on."""
    pool = build(FakeSource(50, 4, classes=("a", "b")), tmp_path / "pool")
    race = Race(pool, {"random": make_strategy("random").fit(pool)}, COURSE)
    assert race.first_accuracy == (None, None, None)
    assert race.step()[0].accuracy == (None, None, None)


def test_a_rarer_question_hides_positives(pool, strategies):
    """One in ten unlabeled items is left positive; nobody selects a hidden one, and ranks leave them out."""
    course = replace(COURSE, prevalence=0.1)
    race = Race(pool, strategies, course)
    hidden = set(race.hidden.tolist())
    assert (pool.truth(race.hidden) == 1).all()
    assert not hidden & set(race.first.ids.tolist())
    left = np.setdiff1d(pool.ids, [*race.first.ids, *hidden])
    assert (pool.truth(left) == 1).mean() == pytest.approx(0.1, abs=0.002)
    before = {lane.name: lane for lane in race.lanes}
    hyperplane = before["exhaustive"].hyperplane
    turns = run(race, 1)
    margins = np.abs(hyperplane.scores(pool.rows_of(left)))
    exact = next(turn for turn in turns if turn.strategy == "exhaustive")
    assert exact.item == left[np.argmin(margins)]
    for turn in turns:
        assert turn.rank == (margins < turn.margin * (1 - 1e-6)).sum()
    turns += run(race, 30)
    assert not hidden & {turn.item for turn in turns}
    again = Race(pool, strategies, course)
    assert again.hidden.tolist() == race.hidden.tolist()
    assert Race(pool, {}, replace(course, run=1)).hidden.tolist() != race.hidden.tolist()


def test_accuracies_of_a_rarer_question_are_those_of_its_prevalence(pool, strategies):
    """The AUROC does not change; average precision is that of held-out positives with a smaller weight."""
    race = Race(pool, strategies, replace(COURSE, prevalence=0.1))
    turn = run(race, 5)[-1]
    y, scores = pool.held_out.truth == 1, turn.hyperplane.scores(pool.held_out.X)
    weight = 0.1 / 0.9 * (~y).sum() / y.sum()
    weights = np.where(y, weight, 1.0)
    assert turn.accuracy.auroc == pytest.approx(roc_auc_score(y, scores), abs=1e-6)
    expected = average_precision_score(y, scores, sample_weight=weights)
    assert turn.accuracy.average_precision == pytest.approx(expected, abs=1e-6)


def test_a_more_frequent_question_adds_classes(pool, strategies):
    """Two of three classes are nearer to 60 % than one; the annotator and the held-out items agree."""
    race = Race(pool, strategies, replace(COURSE, prevalence=0.6))
    assert len(race.hidden) == pytest.approx(len(pool) / 6, abs=40)
    kept = np.setdiff1d(pool.ids, race.hidden)
    assert race.is_positive(kept).mean() == pytest.approx(0.6, abs=0.01)
    classes = set(pool.truth(kept[race.is_positive(kept)]).tolist())
    assert len(classes) == 2
    assert 1 in classes
    assert race.first.y.sum() == 2 * COURSE.n_first
    for turn in run(race, 10):
        assert turn.answer == (pool.truth([turn.item])[0] in classes)
        y, scores = np.isin(pool.held_out.truth, [*classes]), turn.hyperplane.scores(pool.held_out.X)
        assert turn.accuracy.auroc == pytest.approx(roc_auc_score(y, scores), abs=1e-6)
    assert turn.n_positives == race.lanes[-1].labels.y.sum()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prevalence": 1.0}, "prevalence must be above 0 and below 1, got 1"),
        ({"positive": 3}, "positive must be from 0 to 2, got 3"),
        ({"n_first": 0}, "n_first must be at least 1"),
        ({"seed": -1}, "seed and run at least 0"),
        ({"noise": 2.0}, "noise must be a probability"),
        ({"C": 0.0}, "C must be a positive number"),
    ],
)
def test_a_bad_course_is_refused(pool, strategies, change, message):
    """By one sentence that names the value."""
    with pytest.raises(InputError, match=message):
        Race(pool, strategies, replace(COURSE, **change))


def test_every_class_must_be_known(tmp_path, strategies):
    """Nobody could answer about the others."""
    pool = build(PartlyKnown(60, 4, classes=("a", "b")), tmp_path / "pool")
    with pytest.raises(InputError, match="the class of 10 items"):
        Race(pool, {}, COURSE)
