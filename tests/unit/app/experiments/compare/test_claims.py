from __future__ import annotations

import numpy as np
import pytest

from closecall.app.experiments.compare.claims import (
    PAPER,
    SCEPTIC,
    Statement,
    Verdict,
    claims,
)
from closecall.app.experiments.compare.measures import Measures, mean_over_time
from closecall.app.experiments.compare.race_plan import RacePlan, RaceUnit
from closecall.app.experiments.compare.report import headline
from closecall.app.experiments.compare.results import RaceResults
from closecall.app.experiments.compare.statistics import Interval
from closecall.app.experiments.compare.wording import figure, lane_label, points, times

NAMES = ("random", "subsample:n_scored=500", "subsample", "exhaustive", "h-hash", "eh-hash")
ROUNDS = 40


def measures(gains, seconds, margins, *, label_seconds=5.0, out=(), names=NAMES, classes=4, items=10**6):
    """Results in which each strategy gains so many points, takes so long, and comes so near; all but exactly.

    The strategies in `out` ended early.
    """
    plan = RacePlan("pool", "0", tuple(range(classes)), 2, ROUNDS, names)
    units = [RaceUnit(positive, run) for positive in range(classes) for run in range(2)]
    rng = np.random.default_rng(0)
    of_race = rng.normal(size=len(units))  # what all strategies share
    slope = np.linspace(0, 2, ROUNDS + 1)  # of mean 1 over the rounds, about
    auroc = np.empty((len(names), len(units), ROUNDS + 1))
    select, margin = np.empty((2, len(names), len(units), ROUNDS))
    for place, name in enumerate(names):
        own = gains[name] + 0.05 * (-1) ** (place + np.arange(len(units)) // 2) + of_race
        auroc[place] = 0.5 + own[:, None] * slope / 100
        select[place] = seconds[name] * np.exp(0.05 * rng.normal(size=(len(units), ROUNDS)))
        margin[place] = margins[name] * np.exp(0.2 * rng.normal(size=(len(units), ROUNDS)))
        if name in out:
            auroc[place, :, 20:] = np.nan
    nothing = np.zeros_like(select)
    results = RaceResults(
        plan=plan,
        pool=range(items),
        units=units,
        table=None,
        failures={name: {units[0]: "it ran out of memory"} for name in out},
        workers=(1,),
        auroc=auroc,
        average_precision=auroc,
        recall=auroc,
        n_positives=auroc,
        answer=nothing,
        margin=margin,
        scored=nothing,
        select_cpu_seconds=select,
        train_cpu_seconds=nothing,
        rank=nothing,
        item=nothing.astype(np.int64),
    )
    return Measures(results, label_seconds)


def by_name(*values):
    return dict(zip(NAMES, values, strict=True))


GAINS = by_name(3, 4, 4.5, 6, 5.8, 5.9)
SECONDS = by_name(1e-5, 3e-4, 2e-3, 5e-2, 1e-3, 4e-3)
MARGINS = by_name(1, 1e-2, 4e-3, 1e-5, 1e-3, 1e-4)


def verdicts(measured):
    return {claim.title.split()[0]: claim.verdict for claim in claims(measured)}


def titled(measured, start):
    (found,) = (claim for claim in claims(measured) if claim.title.startswith(start))
    return found


def test_all_claims_hold_where_all_are_true():
    """The paper's world."""
    slow = by_name(0.1, 3e-4, 2e-3, 5, 1e-3, 4e-3)
    found = claims(measures(GAINS, slow, MARGINS, label_seconds=1.0))
    assert [claim.verdict for claim in found[:7]] == [Verdict.HOLDS] * 7
    assert [claim.verdict for claim in claims(measures(GAINS, SECONDS, MARGINS))][:7] == [Verdict.HOLDS] * 7


def test_no_claim_holds_where_none_is_true():
    """Random gains most, hashing falls behind and is slow; EH-Hash is further off and faster."""
    found = claims(
        measures(
            by_name(6, 5, 5.5, 4, 1, 1),
            by_name(1e-5, 1e-3, 3e-2, 2e-3, 2e-3, 1e-3),
            by_name(1, 1e-5, 1e-5, 1e-5, 1e-3, 1e-2),
        )
    )
    assert {claim.verdict for claim in found} == {Verdict.DOES_NOT}
    assert len(found) == 9


def test_what_the_intervals_hold_is_left_open():
    """Equal gains are neither better nor worse."""
    equal = by_name(4, 4, 4, 4, 4, 4)
    assert (
        titled(measures(equal, SECONDS, MARGINS), "Active learning by the full scan beats").verdict
        is Verdict.OPEN
    )
    assert titled(measures(equal, SECONDS, MARGINS), "Hashing learns").verdict is Verdict.HOLDS


def test_differences_are_taken_race_by_race():
    """What all strategies share in a race does not make the intervals wide."""
    measured = measures(GAINS, SECONDS, MARGINS)
    paired = measured.difference(measured.gain, "exhaustive", "random")
    alone = measured.mean(measured.gain, "exhaustive")
    assert paired.mean == pytest.approx(3, abs=0.15)
    assert paired.high - paired.low < (alone.high - alone.low) / 3


def test_the_sceptic_compares_at_equal_time():
    """With the smallest subsample that takes no less time, which is the one of 10,000 here for H-Hash."""
    claim = titled(measures(GAINS, SECONDS, MARGINS), "Hashing beats a random subsample")
    of_h = [statement for statement in claim.statements if "H-Hash" in statement.text.split(" against")[0]]
    assert "a subsample of 10,000, which takes 2.0 times as long" in of_h[0].text
    # EH-Hash takes longer than all of them.
    eh = next(statement for statement in claim.statements if statement.text.startswith("EH-Hash"))
    assert "a subsample of 10,000, which takes 0.50 times as long" in eh.text
    few = titled(measures(GAINS, SECONDS, MARGINS, items=8000), "Hashing beats a random subsample")
    assert all("10,000" not in statement.text for statement in few.statements)
    assert "a subsample of 8,000, which takes 2.0 times as long" in few.statements[0].text


def test_time_spent_counts_selection_and_labels():
    """The exhaustive scan loses where selecting takes longer than labeling."""
    slow = {**SECONDS, "exhaustive": 10.0}
    measured = measures(GAINS, slow, MARGINS, label_seconds=1.0)
    claim = titled(measured, "Hashing gives")
    assert claim.verdict is Verdict.HOLDS
    assert measured.spent("random")[:, 0].tolist() == [0.0] * 8
    assert measured.spent("random")[:, -1] == pytest.approx([ROUNDS * 1.00001] * 8, rel=1e-5)


def test_the_mean_over_time():
    """A value counts for as long as it stays, within the limit."""
    spent, values = np.array([0.0, 1.0, 3.0, 6.0]), np.array([0.0, 2.0, 5.0, 100.0])
    assert mean_over_time(spent, values, 4.0) == pytest.approx((0 * 1 + 2 * 2 + 5 * 1) / 4)
    assert mean_over_time(spent, values, 6.0) == pytest.approx((0 * 1 + 2 * 2 + 5 * 3) / 6)
    assert mean_over_time(spent, values, 8.0) == pytest.approx((0 * 1 + 2 * 2 + 5 * 3 + 100 * 2) / 8)


def test_a_strategy_that_ended_early_is_not_judged():
    """The claims about the others stand."""
    measured = measures(GAINS, SECONDS, MARGINS, out=("h-hash",))
    assert "h-hash" not in measured.whole
    texts = [statement.text for claim in claims(measured) for statement in claim.statements]
    assert texts
    assert not any(text.startswith("H-Hash") for text in texts)


def test_weighted_forms_are_judged_by_themselves():
    """The papers' methods may fail where their weighted forms do not."""
    words = ("random", "exhaustive", "h-hash", "h-hash-weighted")
    gains = dict(zip(words, (3, 6, 1, 5.9), strict=True))
    measured = measures(gains, dict.fromkeys(words, 1e-3), dict.fromkeys(words, 1e-3), names=words)
    assert titled(measured, "Hashing beats random").verdict is Verdict.DOES_NOT
    assert titled(measured, "Weighted hashing beats random").verdict is Verdict.HOLDS


def test_without_intervals_nothing_holds():
    """One race says nothing of the next."""
    assert Statement("", Interval(5.0, None, None), 0.0).verdict is Verdict.TOO_FEW


def test_two_classes_are_too_few_to_judge():
    """Student's t over two classes would speak of a hundred points more or less; nothing is said instead."""
    measured = measures(GAINS, SECONDS, MARGINS, classes=2)
    found = claims(measured)
    assert {claim.verdict for claim in found} == {Verdict.TOO_FEW}
    assert not any(" to +" in one.text or " to −" in one.text for claim in found for one in claim.statements)
    assert "too few" in headline(measured, found)
    assert {claim.verdict for claim in claims(measures(GAINS, SECONDS, MARGINS, classes=3))} & {Verdict.HOLDS}


def test_each_claim_says_whose_it_is():
    """Of the published methods, of our forms of them, or nobody's."""
    words = ("random", "exhaustive", "h-hash", "h-hash-weighted", "subsample")
    same = dict.fromkeys(words, 1e-3)
    measured = measures(dict(zip(words, (3, 6, 1, 5.9, 4), strict=True)), same, same, names=words)
    assert titled(measured, "Hashing beats random labels").source == f"{PAPER}."
    assert titled(measured, "Weighted hashing beats random labels").source.endswith("of our weighted form.")
    assert titled(measured, "Hashing beats a random subsample").source == SCEPTIC
    assert all(claim.source for claim in claims(measured))


def test_lanes_are_named_with_what_they_are_given():
    """Subsamples by their size."""
    assert lane_label("h-hash") == "H-Hash"
    assert lane_label("subsample:n_scored=2000") == "Subsample of 2,000"
    assert lane_label("h-hash:n_functions=60,scale=2") == "H-Hash, n_functions=60,scale=2"


def test_figures_in_words():
    """As many digits as there are to trust, and no minus before nothing."""
    assert points(Interval(1.23, -0.04, 2.5)) == "+1.2 points (+0.0 to +2.5)"
    assert points(Interval(-1.23, None, None)) == "−1.2 points"
    assert times(Interval(12.3, 1.037, 1234.5)) == "12 times (1.04 to 1,234)"
    assert [figure(x) for x in (0.00023, 0.034, 2.34, 9.96)] == ["0.00023", "0.034", "2.3", "10"]
