"""Rank and scale are chosen by the recall of their codes, as full sorting counts it."""

from __future__ import annotations

import numpy as np
import pytest

from closecall.app.indexes import choosing
from closecall.app.indexes import estimates as module
from closecall.app.indexes.choosing import chosen_by_data, n_trials
from closecall.app.indexes.recipe import Recipe
from closecall.core.errors import InputError
from closecall.core.experiment.kernelized import RANKS, SCALES
from closecall.core.hashing import FAMILIES
from closecall.core.mercer.kernel import Transformed, kernel_from
from closecall.core.pool.build import build
from closecall.core.pool.pool import Pool
from closecall.core.sources import source_from
from tests.fakes import FakeSource
from tests.projects import digits_pool, new_project, open_workspace
from tests.similar import settled


@pytest.fixture(scope="module")
def pool() -> Pool:
    return Pool.open(digits_pool())


def recall(recipe: Recipe, pool: Pool, rank: int, scale: float | None = None) -> float:
    """Share of queries whose nearest row is among the ten with the nearest codes; ties count in part."""
    rows, queries = choosing._drawn(len(pool))
    assert not set(rows) & set(queries)
    X, Q = pool.rows(rows), pool.rows(queries)
    kernel = kernel_from(recipe.value("kernel"))
    nearest = kernel.matrix(Q, X).argmax(axis=1)
    family = FAMILIES[recipe.family](
        kernel=kernel if scale is None else Transformed(kernel, scale),
        rank=rank,
        n_landmarks=recipe.value("landmarks"),
        n_functions=recipe.value("functions"),
        **recipe.own_form.params,
    ).fit(X)
    codes, asked = (family.hash_points(each).unpacked().astype(int) for each in (X, Q))
    found = []
    for code, near in zip(asked, nearest, strict=True):
        far = np.abs(codes - code).sum(axis=1)
        nearer, equal = (far < far[near]).sum(), (far == far[near]).sum()
        found.append(np.clip((choosing.RETRIEVED - nearer) / equal, 0, 1))
    return float(np.mean(found))


@pytest.mark.parametrize(
    ("family", "form", "kernel"),
    [
        ("klsh", "low rank", None),
        ("klsh", "low rank, from the mean", "intersection"),
        ("kpca-lsh", "low rank", "rbf:gamma=2"),
        ("nystrom-lsh", "low rank", None),
    ],
)
def test_the_rank_with_the_best_recall_is_chosen(pool, family, form, kernel):
    """The first of equally good ones."""
    recipe = Recipe("scan", family, form=form, kernel=kernel, landmarks=100, functions=48)
    recalls = {rank: recall(recipe, pool, rank) for rank in RANKS if rank < 100}
    assert chosen_by_data(recipe, pool).value("rank") == max(recalls, key=recalls.__getitem__)
    assert n_trials(recipe) == len(recalls)


def test_a_scale_is_chosen_at_the_best_rank_and_then_the_rank_again(pool):
    """As published, and then the rank once more."""
    recipe = Recipe("tables", "klsh", form="low rank, transformed", landmarks=60, functions=32, memory=64)
    ranks = [rank for rank in RANKS if rank < 60]
    first = max(ranks, key=lambda rank: recall(recipe, pool, rank))
    scale = max(SCALES, key=lambda scale: recall(recipe, pool, first, scale))
    last = max(ranks, key=lambda rank: recall(recipe, pool, rank, scale))
    found = chosen_by_data(recipe, pool)
    assert (found.value("rank"), found.value("scale")) == (last, scale)
    assert found == recipe.having(rank=last, scale=scale)
    assert n_trials(recipe) == 2 * len(ranks) + len(SCALES) - 1


def test_a_project_chooses_once(tmp_path, monkeypatch):
    """Whatever rank was entered before, and for every structure; the search by it is like any other."""
    calls = []

    def counted(recipe, pool):
        calls.append(recipe)
        return chosen_by_data(recipe, pool)

    monkeypatch.setattr(module, "chosen_by_data", counted)
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        recipe = Recipe("scan", "klsh", form="low rank", landmarks=60, functions=32)
        assert project.similar.estimates.choice_time(recipe) > 0
        found = project.similar.estimates.chosen(recipe)
        assert project.similar.estimates.choice_time(recipe.by("orders")) is None  # nothing is left to do
        other = project.similar.estimates.chosen(recipe.having(rank=7).by("orders"))
        assert len(calls) == 1
        assert other == found.by("orders")
        assert project.similar.estimates.chosen(recipe.having(landmarks=80)).landmarks == 80
        assert len(calls) == 2
        view = project.similar_to(project.session())
        view.go_to(str(int(project.pool.ids[0])))
        view.set_recipe(found)
        assert settled(view)["similar"]["search"]["awaited"] is None
        *_, record = project.log.selections(view.session.concept.record.id)
        assert record.parameters["similar"]["params"].get("rank", 64) == found.value("rank")


def test_what_can_not_be_chosen_is_a_sentence(pool, tmp_path):
    """A form without a rank, features that the kernel refuses, and too few items."""
    with pytest.raises(InputError, match="klsh codes in the form 'original' have no rank to choose"):
        chosen_by_data(Recipe("scan", "klsh", form="original"), pool)
    with pytest.raises(InputError, match="lsh codes in the form 'from the mean' have no rank"):
        chosen_by_data(Recipe("scan"), pool)
    recipe = Recipe("scan", "klsh", form="low rank")
    signed = build(FakeSource(700, 8), tmp_path / "signed")
    with pytest.raises(InputError, match="compares histograms"):
        chosen_by_data(recipe, signed)
    few = build(source_from("digits:15"), tmp_path / "few")
    with pytest.raises(InputError, match="too few items to choose a rank by: 1"):
        chosen_by_data(recipe, few)
