from __future__ import annotations

import numpy as np
import pytest

from closecall.core.errors import InputError
from closecall.core.evaluation.stability import agreement
from closecall.core.evaluation.stopping import AHEAD, Checkpoint, advise, changes_ahead, is_checkpoint

N = 4000


def course(noises, *, n_yes=50, n_no=50, seed=0):
    """Checkpoints of a classifier whose scores are the truth and so much noise, new each time."""
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal(N)
    return [
        Checkpoint.of(truth + noise * rng.standard_normal(N), n_yes * (i + 1), n_no * (i + 1))
        for i, noise in enumerate(noises)
    ]


def test_stop_when_predictions_have_settled():
    """Advice turns to stop once three agreements in a row are high, and names the labels they are of."""
    settling = course([2, 1, 0.5, 0.2, 0.05, 0.02, 0.02, 0.02])
    told = [advise(settling[:n]) for n in range(1, 9)]
    assert [advice.stop for advice in told] == [False] * 6 + [True] * 2
    assert told[6].reason.startswith("More labels hardly change it: from 400 to 700 labels")
    assert told[-1].agreements == pytest.approx(
        [agreement(settling[i].first, settling[i + 1].first) for i in range(7)]
    )
    assert np.mean(told[6].agreements[-3:]) > 0.92 > np.mean(told[5].agreements[-3:])


def test_go_on_while_predictions_change():
    """However many labels there are."""
    advice = advise(course([0.5] * 30))
    assert not advice.stop
    assert advice.reason.startswith("It is still learning: from 2,700 to 3,000 labels")


def test_what_is_asked_for_can_be_adjusted():
    """The nearer to 1, the later."""
    settling = course([2, 1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001])
    first = [
        next(n for n in range(12) if advise(settling[:n], enough=enough).stop) for enough in (0.7, 0.9, 0.98)
    ]
    assert first[0] < first[1] < first[2]


@pytest.mark.parametrize(("n_yes", "n_no", "word"), [(1, 300, "yes"), (300, 1, "no")])
def test_never_stop_for_want_of_examples(n_yes, n_no, word):
    """A classifier that saw eight of a kind at most agrees with itself and knows nothing."""
    advice = advise(course([0.0] * 8, n_yes=n_yes, n_no=n_no))
    assert not advice.stop
    needed = f"At the last check, 8 of 2,408 labels were a {word}: at least 30 are needed."
    assert advice.reason == needed  # now, there are more


def test_never_stop_at_the_beginning():
    """There is no advice before there are three agreements."""
    assert advise([]).reason == "The first check comes with 20 labels, both yes and no."
    settled = course([0.0] * 4)
    assert [advise(settled[:n]).stop for n in range(5)] == [False, False, False, False, True]
    assert advise(settled[:3]).reason == "Too early to say: at the last check, there were 300 labels."


def test_the_first_tenth_is_compared():
    """It has as many items whatever the hyperplane predicts, ties going to the earlier ones."""
    for shift in (-100, 0, 100):
        assert Checkpoint.of(np.arange(50) + shift, 3, 4).first.tolist() == [False] * 45 + [True] * 5
    assert Checkpoint.of(np.zeros(50), 3, 4).first.tolist() == [True] * 5 + [False] * 45
    assert Checkpoint.of(np.zeros(50), 3, 4).n_labels == 7


@pytest.mark.parametrize("scores", [np.zeros(9), np.zeros((20, 2)), np.full(20, np.nan)])
def test_scores_that_cannot_be_ranked_are_refused(scores):
    """Too few of them, or no numbers."""
    with pytest.raises(InputError, match="scores must be at least 10 finite numbers"):
        Checkpoint.of(scores, 5, 5)


def test_checkpoints_of_different_stop_sets_are_refused():
    """They have nothing in common."""
    with pytest.raises(InputError, match="must have the same length"):
        advise([Checkpoint.of(np.arange(50), 20, 20), Checkpoint.of(np.arange(60), 30, 30)])


@pytest.mark.parametrize(
    ("then", "now", "due"),
    [(0, 19, False), (0, 20, True), (60, 79, False), (200, 249, False), (200, 250, True)],
)
def test_checkpoints_follow_in_equal_ratios(then, now, due):
    """A quarter more labels each, and 20 more at the least."""
    assert is_checkpoint(then, now) is due


@pytest.mark.parametrize(("n_labels", "stop"), [(29, False), (30, True)])
def test_thirty_labels_of_each_kind_are_enough(n_labels, stop):
    """With fewer, a classifier for a rare class may have settled before it knows most kinds of positives."""
    settled = course([0.0] * n_labels, n_yes=1, n_no=10)
    assert settled[-1].n_yes == n_labels
    assert advise(settled).stop is stop


def predicting(*yes_and_labels: tuple[int, int]) -> list[Checkpoint]:
    """Checkpoints by their numbers of items predicted yes, the first of 1,000, and of labels."""
    places = np.arange(1000)
    return [Checkpoint.of(np.where(places < yes, 1.0, -1.0), n // 2, n - n // 2) for yes, n in yes_and_labels]


def test_what_more_labels_change_is_bounded_by_the_fastest_change_so_far():
    """Of the last three, each for its number of labels."""
    course = [(900, 20), (100, 40), (130, 60), (110, 100), (111, 200)]
    assert changes_ahead(predicting(*course[:3])) is None
    assert changes_ahead(predicting(*course[:4])) == 1  # 800 items with 20 labels
    assert changes_ahead(predicting(*course)) == pytest.approx(AHEAD * 0.030 / 20)
    later = predicting(*course, (121, 300), (122, 400))
    assert changes_ahead(later) == pytest.approx(AHEAD * 0.010 / 100)


def test_some_predictions_may_change_even_if_none_did():
    """Three of the items that were looked at: with fewer than 1 of 20 chances, more would have changed."""
    assert changes_ahead(predicting(*[(100, n) for n in (20, 40, 60, 80)])) == 3 / 1000
