from __future__ import annotations

import pytest
from scipy.stats import binom

from closecall.core.errors import InputError
from closecall.core.experiment.auditing import MEASURES, audited_sessions
from closecall.core.pool.build import build
from tests.fakes import FakeSource
from tests.scale import scaled


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    source = FakeSource(4000, 8, classes=("a", "b", "c", "d"), held_out=range(0, 4000, 8), lean=0.5)
    return build(source, tmp_path_factory.mktemp("audits") / "pool")


SESSIONS = scaled(quick=2, all=3)


def audits(pool, n=SESSIONS, **options):
    options = {"prevalence": 0.1, "n_items": 800, "n_labels": 60, "n_audited": 60} | options
    return list(audited_sessions(pool, n, **options))


@pytest.mark.thorough
@pytest.mark.slow
def test_intervals_hold_while_the_classifier_learns(pool):
    """Of 80 sessions' intervals 95 % do, to what 80 coins of 95 % do 999 times of 1,000."""
    sessions = audits(pool, 80, n_items=1000)
    for measure in MEASURES:
        assert sum(s.holds(measure) for s in sessions) >= binom.ppf(0.001, 80, 0.95), measure
    assert min(s.frames for s in sessions) >= 3
    assert {s.audited.answers + s.passed for s in sessions} == {60}
    assert max(s.passed for s in sessions) > 1


def test_the_truth_is_that_of_the_items(pool):
    """The prevalence is what was asked for, in every session."""
    for prevalence in (0.1, 0.02):
        assert [s.truth["prevalence"] for s in audits(pool, prevalence=prevalence)] == [prevalence] * SESSIONS


def test_a_higher_level_asks_for_wider_intervals(pool):
    """Of the same answers."""
    for narrow, wide in zip(audits(pool, level=0.5), audits(pool, level=0.99), strict=True):
        for measure in MEASURES:
            one, other = narrow.interval(measure), wide.interval(measure)
            assert one.estimate == pytest.approx(other.estimate, nan_ok=True)
            assert other.high - other.low >= one.high - one.low


def test_the_seed_decides_and_sessions_do_not_meddle(pool):
    """The same seed gives the same sessions, however many there are."""
    few = [str(session) for session in audits(pool, 2, seed=5)]
    assert few == [str(session) for session in audits(pool, 3, seed=5)][:2]
    assert few != [str(session) for session in audits(pool, 2, seed=6)]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"prevalence": 0.0}, r"prevalence must be between 0 and 1, got 0\.0"),
        ({"n_audited": 800}, r"60 \+ 800 answers need as many items, got 800"),
        ({"n_items": 3400}, "n_items must be at most"),
        ({"n_items": 3500, "prevalence": 0.5}, "needs at least two classes with 1750 items"),
    ],
)
def test_what_cannot_be_simulated_is_refused(pool, options, sentence):
    """In one sentence each."""
    with pytest.raises(InputError, match=sentence):
        audits(pool, **options)
