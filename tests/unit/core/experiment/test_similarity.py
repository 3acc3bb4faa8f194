"""Families measured on a small pool, held against brute force; and how families take part."""

from __future__ import annotations

import numpy as np
import pytest

from closecall.core.errors import InputError
from closecall.core.experiment import searching, similarity
from closecall.core.experiment.families import Draw, forms_of, metric_pairs
from closecall.core.experiment.queries import Items
from closecall.core.experiment.similarity import Measured, Truths, measure_family
from closecall.core.experiment.slack import MAX_PASSES, validated_metric
from closecall.core.hashing import FAMILIES, RandomHyperplaneLSH, SpectralHash
from closecall.core.mercer import ChiSquared
from closecall.core.metric import ITML, Constraints
from closecall.core.metric.validation import GAMMAS
from closecall.core.pool.build import build
from closecall.core.pool.pool import Pool
from closecall.core.sources import Digits
from tests.fakes import FakeSource, FakeTexts
from tests.families import learning_little

N_NEAR = 12
RETRIEVED = [3, 30, 300]


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    return build(Digits(1200), tmp_path_factory.mktemp("similarity") / "pool", threads=1)


@pytest.fixture(scope="module")
def signed(tmp_path_factory):
    """Of known classes, with features below zero."""
    source = FakeSource(700, 8, classes=("a", "b"), held_out=range(0, 700, 7))
    return build(source, tmp_path_factory.mktemp("similarity") / "pool", threads=1)


def draw(pool: Pool, **changed) -> Draw:
    rows = np.arange(0, len(pool), 2)
    words = {
        "seed": 3,
        "sample": pool.rows(rows),
        "truth": pool.truth(pool.ids[rows]),
        "choosing": pool.held_out.X[30:50],
        "kernel": "chi2",
        "n_landmarks": 60,
        "share": 0.01,
    }
    return Draw(**{**words, **changed})


def queries(pool: Pool) -> Items:
    return Items(pool.held_out.X[:25], pool.held_out.truth[:25])


def measure(name: str, pool: Pool, bits=(16, 70), **changed) -> Measured:
    truths = Truths(pool, queries(pool), N_NEAR, 2)
    return measure_family(
        name, pool, draw(pool, **changed), truths, bits=bits, retrieved=RETRIEVED, n_searched=10
    )


def value(measured: Measured, name: str, k: int | None = None, **where) -> float:
    wanted = {"form": "", "structure": None, **where, "measure": name, "retrieved": k}
    found = [v.value for v in measured.values if all(getattr(v, key) == w for key, w in wanted.items())]
    assert len(found) == 1
    return found[0]


def by_hand(pool: Pool, family, exact, k: int) -> tuple[float, float]:
    """The share of neighbours among the first k rows by code, and of the query's class, by full sorting."""
    of_rows = family.hash_points(pool.rows(np.arange(len(pool)))).unpacked().astype(int)
    of_queries = family.hash_queries(queries(pool).X).unpacked().astype(int)
    classes, found, alike = pool.truth(pool.ids), [], []
    for own, near, code in zip(queries(pool).truth, exact, of_queries, strict=True):
        distances = np.abs(of_rows - code).sum(axis=1)
        edge = np.sort(distances)[k - 1]
        sure = distances < edge
        chance = np.where(sure, 1.0, (distances == edge) * (k - sure.sum()) / (distances == edge).sum())
        found.append(chance[near].sum() / len(near))
        alike.append(chance[classes == own].sum() / k)
    return float(np.mean(found)), float(np.mean(alike))


def test_lsh_is_held_against_brute_force(digits):
    """Neighbours by angle, counted by full sorting of distances."""
    measured = measure("lsh", digits)
    X = digits.rows(np.arange(len(digits)))
    exact = np.argsort(-(queries(digits).X @ X.T), axis=1, kind="stable")[:, :N_NEAR]
    assert measured.yardsticks == {"": "angle"}
    for bits in (16, 70):
        family = RandomHyperplaneLSH(n_functions=bits, random_state=3).fit(draw(digits).sample)
        for k in RETRIEVED:
            share, alike = by_hand(digits, family, exact, k)
            assert value(measured, "neighbours", k, bits=bits) == pytest.approx(share)
            assert value(measured, "neighbours by angle", k, bits=bits) == pytest.approx(share)
            assert value(measured, "precision", k, bits=bits) == pytest.approx(alike)
            nearest, _ = by_hand(digits, family, exact[:, :1], k)
            assert value(measured, "nearest", k, bits=bits) == pytest.approx(nearest)
    assert value(measured, "bytes", bits=16) == 8
    assert value(measured, "bytes", bits=70) == 16


def test_the_time_of_fitting_has_no_compilation_in_it(signed, monkeypatch):
    """The first fit of a process takes 100 s longer here, as if it compiled; each of the others takes 1 s."""
    clock, costs, fitted = [0.0], [100], Draw.fitted

    def tick():
        clock[0] += 1e-6
        return clock[0]

    def slow_at_first(*words):
        clock[0] += 1 + (costs.pop() if costs else 0)
        return fitted(*words)

    for module in (similarity, searching):
        monkeypatch.setattr(module, "thread_time", tick)
    monkeypatch.setattr(Draw, "fitted", slow_at_first)
    measured = measure("lsh", signed)
    assert [value(measured, "fit seconds", bits=bits) for bits in (16, 70)] == pytest.approx([1, 1], rel=1e-3)


def test_kernelized_forms_are_held_to_their_kernel(digits):
    """Four of them, of the rank and scale that were chosen for this draw."""
    measured, chosen = measure("klsh", digits, bits=(32,)), draw(digits)
    X = digits.rows(np.arange(len(digits)))
    exact = np.argsort(-ChiSquared().matrix(queries(digits).X, X), axis=1, kind="stable")[:, :N_NEAR]
    forms = forms_of("klsh", chosen)
    assert list(forms) == ["original", "low rank", "low rank, transformed", "low rank, from the mean"]
    assert measured.yardsticks == dict.fromkeys(forms, "chi2")
    for form, make in forms.items():
        share, _ = by_hand(digits, chosen.fitted(make, 32), exact, 30)
        assert value(measured, "neighbours", 30, form=form) == pytest.approx(share)
    assert value(measured, "rank", form="low rank") == chosen.published.low_rank.rank
    assert value(measured, "scale", form="low rank, transformed") == chosen.published.transformed.scale
    assert value(measured, "rank", form="low rank, from the mean") == chosen.centred.low_rank.rank


def test_the_cosine_kernel_is_timed_against_the_scan_by_angle(digits):
    """Both scans find the same neighbours, so that times of LSH and KLSH are divided by the same time."""
    truths = Truths(digits, queries(digits), N_NEAR, 2)
    scans = {}
    for name, form, kernel in (
        ("lsh", "", "cosine"),
        ("klsh", "low rank", "cosine"),
        ("klsh", "low rank", "chi2"),
    ):
        measured = measure_family(
            name, digits, draw(digits, kernel=kernel), truths, bits=(32,), retrieved=RETRIEVED, n_searched=2
        )
        (seconds,), (ratio,) = (
            {
                v.value
                for v in measured.values
                if (v.form, v.structure, v.retrieved, v.measure) == (form, "scan", 100, what)
            }
            for what in ("seconds", "scan ratio")
        )
        scans[name, kernel] = seconds / ratio
    assert scans["klsh", "cosine"] == pytest.approx(scans["lsh", "cosine"])
    assert scans["klsh", "chi2"] != pytest.approx(scans["lsh", "cosine"])


def test_the_slack_of_a_learned_metric_is_recorded(signed):
    """It has the best score of cross-validation, and the same pairs with it give the same metric again."""
    own = draw(signed)
    n_pairs = metric_pairs(2)
    scores = validated_metric(own.sample, own.truth, n_pairs=n_pairs // 2, seed=3).scores
    recorded = value(measure("metric-lsh", signed, bits=(16,)), "gamma")
    assert scores[recorded] == max(scores.values())
    pairs = Constraints.from_labels(own.sample, own.truth, n_pairs=n_pairs, random_state=3)
    metrics = {
        gamma: ITML(gamma=gamma, max_passes=MAX_PASSES, random_state=3).fit(own.sample, pairs).metric_
        for gamma in GAMMAS
    }
    same = [
        gamma
        for gamma, metric in metrics.items()
        if np.array_equal(metric.squared_norms(own.sample), own.learned.metric.squared_norms(own.sample))
    ]
    assert same == [recorded]
    assert all(one.measure != "gamma" for one in measure("lsh", signed, bits=(16,)).values)


@pytest.mark.thorough
def test_the_slack_of_a_learned_kernel_is_recorded(signed):
    own = draw(signed)
    (make,) = forms_of("ksh-learned", own).values()
    assert value(measure("ksh-learned", signed, bits=(16,)), "gamma") == own.kernel_gamma == make(16).gamma
    assert all(one.measure != "gamma" for one in measure("ksh", signed, bits=(16,)).values)


@pytest.mark.parametrize("structure", searching.STRUCTURES)
def test_structures_that_rank_all_rows_find_all(digits, structure, monkeypatch):
    """And say that they searched all, but for buckets that tables never come to; else they search less."""
    monkeypatch.setattr(searching, "SEARCHED", (0.01, 1.0))
    measured = measure("lsh", digits)
    n = len(digits)
    assert value(measured, "recall", n, bits=70, structure=structure) == 1
    assert value(measured, "searched", n, bits=70, structure=structure) == pytest.approx(1, abs=0.01)
    assert value(measured, "searched", 100, bits=70, structure=structure) == pytest.approx(100 / n)
    compared = value(measured, "compared", 100, bits=70, structure=structure)
    a_candidate = searching.COMPARED.get(structure, searching.USUALLY_COMPARED)
    assert compared == 1 if structure == "scan" else compared <= min(a_candidate * 100 / n, 1)
    ratio = value(measured, "scan ratio", 100, bits=70, structure=structure)
    assert ratio > 0


def test_a_new_family_takes_part_by_being_there(digits, monkeypatch):
    """With its own defaults, also where it can't have so many functions."""

    class Short(RandomHyperplaneLSH):
        name = "short"

        def _check(self) -> None:
            super()._check()
            if self.n_functions > 20:
                raise InputError(f"short has at most 20 functions, got {self.n_functions}")

    monkeypatch.setitem(FAMILIES, "short", Short)
    measured = measure("short", digits)
    assert measured.refused == {"70 bits": "short has at most 20 functions, got 70"}
    assert {one.bits for one in measured.values} == {16}
    alone = measure("lsh", digits, bits=(16,))
    assert value(measured, "neighbours", 30) == value(alone, "neighbours", 30)


@pytest.mark.thorough
def test_every_family_takes_part_where_it_applies(digits):
    """Each in some form, with numbers of its own; dense rows are no sets."""
    assert "min-hash compares the sets" in measure("min-hash", digits).refused[""]
    for name in set(FAMILIES) - {"min-hash"}:
        with learning_little():
            measured = measure(name, digits, bits=(24,))
        assert measured.refused == {}
        assert measured.yardsticks
        for form in measured.yardsticks:
            assert 0 < value(measured, "neighbours", 300, form=form) <= 1


def test_spectral_hashing_comes_as_published_and_trimmed(digits):
    """Both are held to the angle, by which Euclidean distances of unit rows are ordered."""
    measured = measure("spectral", digits, bits=(24,))
    X = digits.rows(np.arange(len(digits)))
    exact = np.argsort(-(queries(digits).X @ X.T), axis=1, kind="stable")[:, :N_NEAR]
    assert measured.yardsticks == {"original": "angle", "trimmed": "angle"}
    for form, trim in (("original", 0.0), ("trimmed", 0.01)):
        share, _ = by_hand(
            digits, SpectralHash(trim=trim, n_functions=24).fit(draw(digits).sample), exact, 30
        )
        assert value(measured, "neighbours", 30, form=form) == pytest.approx(share)


def test_what_does_not_apply_says_why(signed):
    """A kernel of histograms where features are negative, a metric where no class is known."""
    assert "the kernel chi2 compares histograms" in measure("klsh", signed).refused[""]
    unknown = np.full(len(signed) // 2, -1, np.int16)
    assert "labels of at least two classes" in measure("metric-lsh", signed, truth=unknown).refused[""]
    assert measure("klsh", signed, kernel="rbf:gamma=2").refused == {}


def test_a_learned_metric_is_taught_by_the_classes(signed):
    """What it finds is more often of the query's class than what plain angles find."""
    learned, plain = measure("metric-lsh", signed), measure("lsh", signed)
    assert learned.yardsticks == {"": "learned metric"}
    gained = [
        value(learned, "precision", 30, bits=b) - value(plain, "precision", 30, bits=b) for b in (16, 70)
    ]
    assert np.mean(gained) > 0


@pytest.mark.thorough
@pytest.mark.slow
def test_sparse_rows_are_hashed_by_what_applies_to_them(tmp_path):
    """Plain and under a metric that few labels teach; kernels refuse them."""
    source = FakeTexts(500, held_out=range(0, 500, 8))
    texts = build(source, tmp_path / "pool", threads=1)
    for name in ("lsh", "metric-lsh", "shift-invariant", "min-hash"):
        measured = measure(name, texts, bits=(32,))
        assert measured.refused == {}
        for form in measured.yardsticks:
            assert 0 < value(measured, "neighbours", 30, form=form) < 1
    assert measured.yardsticks == {"sets": "overlap", "weighted": "weighted overlap"}
    assert "needs dense rows, got sparse ones" in measure("klsh", texts).refused[""]


def test_there_is_no_such_family(digits):
    """The sentence names those that there are."""
    with pytest.raises(InputError, match=r"a family is one of lsh, .*, got 'theirs'"):
        forms_of("theirs", draw(digits))
