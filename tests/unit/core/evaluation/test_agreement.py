from __future__ import annotations

import krippendorff
import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats import inter_rater

from closecall.core.errors import InputError
from closecall.core.evaluation.agreement import (
    cohen_interval,
    cohen_kappa,
    fleiss_kappa,
    krippendorff_alpha,
    krippendorff_interval,
)
from tests.scale import thorough


@pytest.mark.parametrize("seed", range(5))
def test_kappa_is_the_one_of_the_literature(seed):
    """As scikit-learn computes it, whatever the two say."""
    rng = np.random.default_rng(seed)
    first = rng.random(50) < 0.3
    second = np.where(rng.random(50) < 0.2 * seed, rng.random(50) < 0.5, first)
    assert cohen_kappa(first, second) == pytest.approx(cohen_kappa_score(first, second), abs=1e-9)


def test_kappa_is_unknown_where_chance_explains_everything():
    """Two who only ever say no agree, but that tells nothing."""
    no = np.zeros(9, dtype=bool)
    assert cohen_kappa(no, no) is None
    assert cohen_kappa(no[:0], no[:0]) is None
    assert cohen_kappa(no, ~no) == 0


def answers_of(rng, n_items, n_annotators, n_answers, missing=0.0):
    """What each annotator says of each item, −1 where nothing; they lean to what the item is."""
    truth = rng.integers(n_answers, size=n_items)
    said = rng.integers(n_answers, size=(n_items, n_annotators))
    said = np.where(rng.random(said.shape) < rng.random(), truth[:, None], said)
    return np.where(rng.random(said.shape) < missing, -1, said)


def counted(said, n_answers):
    return np.stack([(said == answer).sum(axis=1) for answer in range(n_answers)], axis=1)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("annotators", "answers"), [(2, 2), (3, 2), (7, 2), (4, 5)])
def test_fleiss_kappa_is_the_one_of_statsmodels(seed, annotators, answers):
    """For two and for many annotators and answers."""
    counts = counted(answers_of(np.random.default_rng(seed), 60, annotators, answers), answers)
    assert fleiss_kappa(counts) == pytest.approx(inter_rater.fleiss_kappa(counts), abs=1e-9)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("missing", [0.0, 0.3, 0.7])
@pytest.mark.parametrize(("annotators", "answers"), [(2, 2), (5, 2), (4, 4)])
def test_krippendorff_alpha_is_the_one_of_its_package(seed, missing, annotators, answers):
    """Items answered once, or by nobody, among them."""
    said = answers_of(np.random.default_rng(seed), 80, annotators, answers, missing)
    data = np.where(said < 0, np.nan, said.astype(float)).T
    theirs = krippendorff.alpha(reliability_data=data, level_of_measurement="nominal")
    assert krippendorff_alpha(counted(said, answers)) == pytest.approx(theirs, abs=1e-9)


@pytest.mark.parametrize("measure", [fleiss_kappa, krippendorff_alpha])
def test_measures_are_unknown_where_chance_explains_everything(measure):
    """Without items, and where only one answer was ever given; 1 where all agree on both."""
    assert measure(np.zeros((0, 2), dtype=int)) is None
    assert measure([[3, 0], [3, 0]]) is None
    assert measure([[3, 0], [0, 3]]) == 1


def test_alpha_needs_two_answers_to_an_item():
    """One answer can't be agreed with."""
    assert krippendorff_alpha([[1, 0], [0, 1]]) is None


def test_what_cannot_be_counted_is_refused():
    """With what is allowed, and what was given."""
    with pytest.raises(InputError, match="the same number of annotators, at least two, got 2 to 3"):
        fleiss_kappa([[2, 0], [1, 2]])
    with pytest.raises(InputError, match="the same number of annotators, at least two, got 1 to 1"):
        fleiss_kappa([[1, 0], [0, 1]])
    for wrong in ([3, 0], [[-1, 2]]):
        with pytest.raises(InputError, match="one row per item and one column per answer"):
            krippendorff_alpha(wrong)


def simulated(rng, n_items, share, errors):
    """What annotators who err so often say of items of which a share is yes, one column each."""
    truth = rng.random(n_items) < share
    return np.stack([truth ^ (rng.random(n_items) < error) for error in errors], axis=1)


@pytest.mark.parametrize(
    ("share", "errors", "n_items"),
    [
        (0.5, (0.1, 0.1), 12),
        thorough(0.5, (0.1, 0.1), 40),
        thorough(0.5, (0.1, 0.1), 200),
        thorough(0.2, (0.05, 0.2), 12),
        (0.2, (0.05, 0.2), 40),
        thorough(0.2, (0.05, 0.2), 200),
        thorough(0.4, (0.3, 0.4), 12),
        thorough(0.4, (0.3, 0.4), 40),
        (0.4, (0.3, 0.4), 200),
    ],
)
def test_the_interval_of_kappa_holds_it(n_items, share, errors):
    """Whoever measured on very many items would find it inside in some 95 of 100 samples; few items, too."""
    rng = np.random.default_rng(n_items)
    whole = simulated(rng, 100_000, share, errors)
    true = cohen_kappa(whole[:, 0], whole[:, 1])
    held = []
    for seed in range(250):
        said = simulated(rng, n_items, share, errors)
        interval = cohen_interval(said[:, 0], said[:, 1], seed=seed)
        if interval is not None:
            held.append(interval.low <= true <= interval.high)
    assert len(held) > 235
    assert np.mean(held) > 0.9


@pytest.mark.parametrize(
    ("share", "errors", "n_items"),
    [
        (0.5, (0.1, 0.2, 0.1), 15),
        thorough(0.5, (0.1, 0.2, 0.1), 60),
        (0.5, (0.1, 0.2, 0.1), 300),
        thorough(0.25, (0.05, 0.1, 0.3), 15),
        (0.25, (0.05, 0.1, 0.3), 60),
        thorough(0.25, (0.05, 0.1, 0.3), 300),
    ],
)
def test_the_interval_of_alpha_holds_it(n_items, share, errors):
    """Where some annotators left items out, too; a little less often where few items have two answers."""
    rng = np.random.default_rng(n_items)

    def counts(n):
        said = simulated(rng, n, share, errors).astype(float)
        said[rng.random(said.shape) < 0.3] = np.nan
        return np.stack([np.sum(said == answer, axis=1) for answer in (0, 1)], axis=1)

    true = krippendorff_alpha(counts(100_000))
    held = []
    for seed in range(200):
        interval = krippendorff_interval(counts(n_items), seed=seed)
        if interval is not None:
            held.append(interval.low <= true <= interval.high)
    assert len(held) > 190
    assert np.mean(held) > (0.85 if n_items < 20 else 0.9)


def test_an_interval_is_wide_where_few_agree_on_everything():
    """Four items tell little, four hundred much; the same seed gives the same interval."""
    yes = np.arange(4) % 2 == 0
    few, many = cohen_interval(yes, yes), cohen_interval(np.tile(yes, 100), np.tile(yes, 100))
    assert few.low < 0.5 < 0.95 < many.low
    assert few.high == many.high == 1
    assert few == cohen_interval(yes, yes)
    assert krippendorff_interval([[2, 0], [0, 2]] * 2).low < 0.5
    assert krippendorff_interval([[2, 0], [0, 2]] * 200).low > 0.95


def test_an_interval_is_unknown_where_the_measure_is():
    """Without items, and where only one answer was ever given."""
    no = np.zeros(9, dtype=bool)
    assert cohen_interval(no, no) is None
    assert krippendorff_interval([[3, 0]]) is None
    with pytest.raises(InputError, match="two columns, one per answer, got 3"):
        krippendorff_interval([[1, 1, 0]])
