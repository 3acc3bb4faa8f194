"""The survey's comparison on a small pool, held against full sorting."""

from __future__ import annotations

import numpy as np
import pytest

from closecall.app.experiments.bench.similar import Survey
from closecall.app.experiments.bench.similar.survey import lengths, numbers_retrieved
from closecall.core.experiment.families import Draw
from closecall.core.experiment.queries import Items
from closecall.core.experiment.similarity import Truths
from closecall.core.hashing import KernelPCALSH, RandomHyperplaneLSH, SimilarityHasher
from closecall.core.pool.build import build
from closecall.core.pool.pool import Pool
from tests.fakes import FakeSource
from tests.unit.app.experiments.histograms import ten_classes

N_NEAR = 9


def survey(bits: int) -> Survey:
    return Survey(
        draws=1,
        queries=15,
        bits=(bits,),
        families=(),
        kernels=("chi2",),
        landmarks=60,
        wanted=N_NEAR,
        share=0.01,
    )


def made(pool: Pool) -> tuple[Draw, Truths]:
    rows, held_out = np.arange(0, len(pool), 2), pool.held_out
    draw = Draw(
        seed=4,
        sample=pool.rows(rows),
        truth=pool.truth(pool.ids[rows]),
        choosing=held_out.X[20:40],
        kernel="chi2",
        n_landmarks=60,
        share=0.01,
    )
    return draw, Truths(pool, Items(held_out.X[:15], held_out.truth[:15]), N_NEAR, 1)


@pytest.fixture(scope="module")
def histograms(tmp_path_factory: pytest.TempPathFactory) -> Pool:
    return build(ten_classes(900, 100), tmp_path_factory.mktemp("survey") / "pool", threads=1)


def by_sorting(pool: Pool, family: SimilarityHasher, k: int) -> float:
    """The share of the nearest by distance among the first k, averaged over 200 orders of equal ones."""
    X, Q = pool.rows(np.arange(len(pool))), pool.held_out.X[:15]
    exact = np.argsort(((Q[:, None] - X[None]) ** 2).sum(axis=2), axis=1)[:, :N_NEAR]
    differing = (family.hash_queries(Q).unpacked()[:, None] != family.hash_points(X).unpacked()).sum(axis=2)
    is_near = np.zeros(differing.shape, dtype=bool)
    np.put_along_axis(is_near, exact, values=True, axis=1)
    rng, shares = np.random.default_rng(0), []
    for _ in range(200):
        order = np.argsort(differing + rng.uniform(size=differing.shape), axis=1)[:, :k]
        shares.append(np.take_along_axis(is_near, order, axis=1).sum(axis=1) / N_NEAR)
    return float(np.mean(shares))


def test_a_row_has_what_a_code_finds_by_items_retrieved(histograms: Pool) -> None:
    """Neighbours by the distance of features, counted by full sorting."""
    draw, truths = made(histograms)
    figure = survey(40)
    rows = figure.measure_family("lsh", draw, truths)
    assert figure.refused == {}
    assert [(row["family"], row["form"], row["bits"], row["seed"]) for row in rows] == [
        ("lsh", "", bits, 4) for bits in (8, 16, 32, 40)
    ]
    for row in (rows[0], rows[-1]):
        family = RandomHyperplaneLSH(n_functions=row["bits"], random_state=4).fit(draw.sample)
        assert row["retrieved"] == [9, 10, 20, 50, 100, 200, 500, len(histograms)]
        for place in (0, 3, 5):
            expected = by_sorting(histograms, family, row["retrieved"][place])
            assert row["found"][place] == pytest.approx(expected, abs=0.02)


def test_a_family_of_another_kernel_is_held_to_the_same_neighbours(histograms: Pool) -> None:
    """And says what it looks for itself."""
    draw, truths = made(histograms)
    *_, row = survey(32).measure_family("kpca-lsh", draw, truths)
    rank = draw.published.low_rank.rank
    family = KernelPCALSH(
        kernel="chi2", rank=rank, centred=False, n_landmarks=60, n_functions=32, random_state=4
    )
    assert row["yardstick"] == "chi2"
    assert row["found"][3] == pytest.approx(by_sorting(histograms, family.fit(draw.sample), 50), abs=0.02)


def test_a_family_that_does_not_apply_says_why(tmp_path_factory: pytest.TempPathFactory) -> None:
    """By its name."""
    source = FakeSource(500, 8, classes=("a", "b"), held_out=range(0, 500, 9))
    pool = build(source, tmp_path_factory.mktemp("survey") / "signed", threads=1)
    figure = survey(16)
    assert figure.measure_family("klsh", *made(pool)) == []
    assert "the kernel chi2 compares histograms" in figure.refused["klsh"]


def test_lengths_double_up_to_the_longest() -> None:
    """Which is among them in any case."""
    assert lengths(64) == [8, 16, 32, 64]
    assert lengths(100) == [8, 16, 32, 64, 100]
    assert lengths(8) == [8]
    assert lengths(5) == [5]


def test_numbers_retrieved_are_round_but_for_the_ends() -> None:
    """From as many as there are true neighbours to all rows."""
    assert numbers_retrieved(50, 1234) == [50, 100, 200, 500, 1000, 1234]
    assert numbers_retrieved(7, 50) == [7, 10, 20, 50]
    assert numbers_retrieved(3, 3) == [3]
