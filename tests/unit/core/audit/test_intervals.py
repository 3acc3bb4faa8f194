from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta, binom

from closecall.core.audit import Interval, bands, estimate
from closecall.core.audit.strata import shares
from closecall.core.errors import InputError
from tests.scale import scaled, thorough


def population(rng, n_items, prevalence, separation=3.0):
    """Scores and truth; how many are predicted differs from how many there are by up to a factor of 2."""
    y = rng.random(n_items) < prevalence
    scores = rng.standard_normal(n_items) + separation * y
    n_predicted = max(int(prevalence * n_items * rng.uniform(0.5, 2)), 5)
    return scores - np.sort(scores)[-n_predicted - 1], y


def stratified(rng, by, n):
    """Rows drawn from bands of these scores as a frame draws them, and the chance of each."""
    cuts = bands(by)
    band = np.searchsorted(cuts, by)
    sizes = np.bincount(band, minlength=len(cuts) + 1)
    drawn = np.minimum(rng.multinomial(n, shares(cuts, sizes)), sizes)
    rows = [rng.choice(np.flatnonzero(band == b), m, replace=False) for b, m in enumerate(drawn)]
    rows = np.concatenate(rows)
    return rows, (drawn / np.maximum(sizes, 1))[band[rows]]


def truth_of(scores, y):
    predicted = scores > 0
    return y[predicted].mean(), predicted[y].mean(), y.mean()


def figures(audited):
    return audited.precision, audited.recall, audited.prevalence


def holds(interval: Interval, value: float) -> bool:
    return interval.low - 1e-12 <= value <= interval.high + 1e-12


@pytest.mark.slow
@pytest.mark.parametrize(
    ("prevalence", "earlier"),
    [
        thorough(0.1, 0.0, id="0.1-same model"),
        pytest.param(0.1, 1.0, id="0.1-earlier model"),
        pytest.param(0.005, 0.0, id="0.005-same model"),
        thorough(0.005, 1.0, id="0.005-earlier model"),
    ],
)
def test_intervals_hold_the_truth_as_often_as_they_say(prevalence, earlier):
    """Of n audits each, 95 % of the intervals do (within what n coins of 95 % do 999 times of 1,000).

    Also where the bands were those of an earlier model, whose scores differ.
    """
    rng = np.random.default_rng(7)
    held, n = np.zeros(3), scaled(quick=100, all=200)
    for _ in range(n):
        scores, y = population(rng, 8000, prevalence)
        rows, chance = stratified(rng, scores + earlier * rng.standard_normal(8000), 200)
        found = estimate(scores, rows, y[rows], chance)
        held += [holds(*pair) for pair in zip(figures(found), truth_of(scores, y), strict=True)]
    assert (held >= binom.ppf(0.0005, n, 0.95)).all(), held
    assert (held < n).all(), "an interval that always holds is too wide"


AUDITS = scaled(quick=60, all=200)


def test_estimates_are_unbiased():
    """Over many audits of one pool, prevalence and true positives have the truth as mean (to 4 errors)."""
    rng = np.random.default_rng(1)
    scores, y = population(rng, 6000, 0.05)
    found = []
    for _ in range(AUDITS):
        rows, chance = stratified(rng, scores, 200)
        found.append([i.estimate for i in figures(estimate(scores, rows, y[rows], chance))])
    error = np.std(found, axis=0) / np.sqrt(AUDITS)
    precision, _, prevalence = np.abs(np.mean(found, axis=0) - truth_of(scores, y)) / error
    assert precision < 4
    assert prevalence < 4


def test_a_side_with_one_band_has_the_interval_of_jeffreys():
    """Of 40 items 31 are a yes, out of a million: the quantiles of Beta(31½, 9½), to Monte Carlo error."""
    scores = np.concatenate([np.full(1_000_000, 1.0), [-1.0]])
    found = estimate(scores, np.arange(40), np.arange(40) < 31, np.full(40, 40 / 1e6)).precision
    assert found.estimate == pytest.approx(31 / 40)
    assert [found.low, found.high] == pytest.approx(beta.ppf([0.025, 0.975], 31.5, 9.5), abs=0.004)
    other = estimate(scores, np.arange(40), np.arange(40) < 31, np.full(40, 0.5), level=0.5).precision
    assert [other.low, other.high] == pytest.approx(beta.ppf([0.25, 0.75], 31.5, 9.5), abs=0.004)


def test_uneven_weights_count_as_fewer_answers():
    """Where one answer in two has a ninth of the other's weight, 80 answers are as good as 49 even ones."""
    scores = np.concatenate([np.full(1_000_000, 1.0), [-1.0]])
    y = np.arange(80) % 4 < 3
    chance = np.where(np.arange(80) < 40, 0.09, 0.01)
    found = estimate(scores, np.arange(80), y, chance).precision
    assert found.estimate == pytest.approx(0.75)
    n = 80 * (1 + 1 / 9) ** 2 / 2 / (1 + 1 / 81)
    expected = beta.ppf([0.025, 0.975], 0.75 * n + 0.5, 0.25 * n + 0.5)
    assert [found.low, found.high] == pytest.approx(expected, abs=0.004)


def test_errors_that_weigh_more_are_less_certain():
    """Of 80 answers eight are errors with three times the weight: they count as p (1 − p) / variance."""
    scores = np.concatenate([np.full(1_000_000, 1.0), [-1.0]])
    wrong = np.arange(80) < 8
    found = estimate(scores, np.arange(80), ~wrong, np.where(wrong, 0.01, 0.03)).precision
    share = 24 / 96
    assert found.estimate == pytest.approx(1 - share, abs=1e-4)
    variance = (8 * 9 * (1 - share) ** 2 + 72 * share**2) / 96**2
    n = share * (1 - share) / variance
    assert n < 96**2 / (8 * 9 + 72)
    expected = beta.ppf([0.025, 0.975], (1 - share) * n + 0.5, share * n + 0.5)
    assert [found.low, found.high] == pytest.approx(expected, abs=0.004)


def test_who_audits_everything_knows_everything():
    """Intervals shrink to the truth, items that were asked for counting for prevalence alone."""
    scores, y = population(np.random.default_rng(3), 3000, 0.1)
    asked = np.arange(0, 3000, 30)
    rest = np.setdiff1d(np.arange(3000), asked)
    found = estimate(scores, rest, y[rest], np.ones(len(rest)), asked=asked, asked_yes=int(y[asked].sum()))
    precision, recall, _ = truth_of(scores[rest], y[rest])
    for interval, value in zip(figures(found), (precision, recall, y.mean()), strict=True):
        assert [interval.low, interval.estimate, interval.high] == pytest.approx([value] * 3)
    assert (found.answers, found.yes) == (2900, int(y[rest].sum()))
    in_hand = scores > 0
    in_hand[asked] = True
    value = in_hand[y].mean()
    assert [found.found.low, found.found.estimate, found.found.high] == pytest.approx([value] * 3)


def test_what_was_asked_for_leaves_the_population():
    """Estimates are those of a pool without these items."""
    rng = np.random.default_rng(4)
    scores, y = population(rng, 3000, 0.1)
    rest = np.sort(rng.choice(3000, 2500, replace=False))
    rows, chance = stratified(rng, scores[rest], 200)
    asked = np.setdiff1d(np.arange(3000), rest)
    found = estimate(scores, rest[rows], y[rest[rows]], chance, asked=asked, asked_yes=int(y[asked].sum()))
    alone = estimate(scores[rest], rows, y[rest[rows]], chance)
    assert found.precision == alone.precision
    assert found.recall == alone.recall
    n_yes = 2500 * alone.prevalence.estimate
    assert found.prevalence.estimate == pytest.approx((n_yes + y[asked].sum()) / 3000)
    in_hand = n_yes * alone.recall.estimate + y[asked].sum()
    assert found.found.estimate == pytest.approx(in_hand / (n_yes + y[asked].sum()))
    assert alone.found == alone.recall


def test_more_answers_narrow_the_intervals():
    """Four times as many answers make each about half as wide."""
    rng = np.random.default_rng(5)
    widths = []
    for n in (100, 400):
        wide = np.zeros(3)
        for _ in range(scaled(quick=20, all=40)):
            scores, y = population(rng, scaled(quick=10_000, all=20_000), 0.1)
            rows, chance = stratified(rng, scores, n)
            wide += [i.high - i.low for i in figures(estimate(scores, rows, y[rows], chance))]
        widths.append(wide)
    assert (widths[1] / widths[0] > 0.35).all()
    assert (widths[1] / widths[0] < 0.7).all()


def test_nothing_audited_is_nothing_known():
    """No estimate, and an interval that excludes next to nothing; where one side is unseen, so is recall."""
    scores = np.concatenate([np.full(600, -1.0), np.full(300, 1.0)])
    nothing = np.empty(0)
    for interval in figures(estimate(scores, nothing, nothing, nothing)):
        assert np.isnan(interval.estimate)
        assert interval.high - interval.low > 0.8
    found = estimate(scores, np.arange(600, 700), np.ones(100), np.ones(100))
    assert found.precision.estimate == 1
    assert np.isnan(found.recall.estimate)
    assert found.recall.low < 0.35
    assert found.recall.high > 0.99


def test_a_classifier_that_never_says_yes_has_no_precision():
    """Nobody can say what a share of nothing is; its recall is 0."""
    scores = np.full(500, -1.0)
    found = estimate(scores, np.arange(100), np.arange(100) < 30, np.ones(100))
    assert np.isnan(found.precision.estimate)
    assert (found.precision.low, found.precision.high) == (0, 1)
    assert found.recall == Interval(0, 0, 0)


@pytest.mark.parametrize("score", [-1.0, 1.0])
def test_without_a_positive_in_the_audit_nothing_is_known_of_recall(score):
    """Whether the classifier predicts no positives, as with few labels, or any number of them."""
    scores = np.concatenate([np.full(300, score), np.full(300, -2.0)])
    found = estimate(scores, [0, 1, 2, 400, 401, 402], np.zeros(6), np.ones(6), asked=[500], asked_yes=1)
    assert np.isnan(found.recall.estimate)
    assert (found.recall.low, found.recall.high) == (0, 1)
    assert found.prevalence.low < 0.01 < found.prevalence.high < 1


def test_the_same_answers_give_the_same_interval():
    """Draws from the posterior have a seed of their own."""
    rng = np.random.default_rng(6)
    scores, y = population(rng, 2000, 0.1)
    rows, chance = stratified(rng, scores, 100)
    assert estimate(scores, rows, y[rows], chance) == estimate(scores, rows, y[rows], chance)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"y": [True]}, r"must have the same length, got \(2,\), \(1,\) and \(2,\)"),
        ({"audited": [3, 9]}, "must be rows from 0 to 8, got 9"),
        ({"audited": [3, -1]}, "must be rows from 0 to 8, got -1"),
        ({"audited": [3, 3]}, "row 3 is repeated"),
        ({"asked": [2]}, "row 2 is repeated: an item is audited or asked for, only once"),
        ({"inclusion": [0.5, 0.0]}, r"inclusion must be above 0, got 0\.0"),
        ({"inclusion": [0.5, np.nan]}, "inclusion must be above 0, got nan"),
        ({"level": 1.0}, r"level must be between 0 and 1, got 1\.0"),
    ],
)
def test_bad_input_is_refused(changed, sentence):
    """In one sentence that names the argument and what was given."""
    good = {"scores": np.arange(9.0) - 4, "audited": [3, 2], "y": [True, False], "inclusion": [0.5, 0.5]}
    estimate(**good)
    with pytest.raises(InputError, match=sentence):
        estimate(**(good | changed))
