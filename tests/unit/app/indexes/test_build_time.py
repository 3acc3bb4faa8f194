"""The estimated time of a build: counted by hand, longer for more, and corrected by earlier builds."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest

from closecall.app.indexes import build_time as module
from closecall.app.indexes import similar, strategies
from closecall.app.indexes.build_time import BuildTime, Paces, Shape, Speeds, build_time, trial_time
from closecall.app.indexes.costs import brief_of, cost_of
from closecall.app.indexes.recipe import Recipe
from closecall.app.indexes.settings import OFFERED
from closecall.app.runtime import kernels
from closecall.app.sessions.similar.query import Like
from closecall.core.hashing import FAMILIES
from closecall.core.hashing.forms import forms_named
from closecall.core.pool.build import build
from closecall.core.sources import source_from
from tests.projects import new_project, open_workspace
from tests.similar import settled

PHOTOGRAPHS = Shape(1_000_000, 384)
TEXTS = Shape(20_000, 100_000, n_nonzero=80.0)


class Fixed(Speeds):
    """Each kind of operation at its own speed."""

    def of(self, kind: str) -> float:
        return {"products": 1e10, "sparse": 1e9, "waves": 1e8, "chi2": 2e9, "sorting": 1e8}.get(kind, 3e8)


@pytest.fixture(autouse=True)
def four_cores(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(module, "crowding", lambda: 1.0)


def estimated(recipe: Recipe, shape: Shape, n_tables: int = 1) -> BuildTime:
    return build_time(recipe, shape, n_tables, speeds=Fixed())


@pytest.mark.parametrize(
    ("recipe", "shape", "seconds"),
    [
        # 2 · 384 operations for each of 256 functions and a million rows; the mean of 20,000 of them.
        (Recipe("scan"), PHOTOGRAPHS, 2 * (2 * 384 * 256 * 1e6 / 1e10) / 4 + 2 * 384 * 2e4 / 1e10),
        (Recipe("scan", functions=64), TEXTS, 2 * (2 * 80 * 64 * 2e4 / 1e9) / 4 + 2 * 80 * 16_384 / 1e9),
        # 300 χ² values of 384 terms and 256 products of 300; the same of 300 landmarks, and their spectrum.
        (
            Recipe("scan", "klsh"),
            PHOTOGRAPHS,
            1e6 * (300 * 384 / 2e9 + 2 * 300 * 256 / 1e10) / 4 + 300 * 300 * 384 / 2e9 + 25 * 300**3 / 1e10,
        ),
        # Each of the 100,000 words is new once in every block of 2,048 texts.
        (Recipe("scan", "min-hash"), TEXTS, 2 * ((80 + 100_000 / 2_048) * 256 * 2e4 / 3e8) / 4),
        # The decomposition of 16,384 sparse rows into 64 directions takes nearly all of the time.
        (Recipe("scan", "spectral", functions=64), TEXTS, 160 * 16_384 * 64**2 / 3e8),
    ],
    ids=["lsh", "lsh of texts", "klsh", "min-hash", "spectral of texts"],
)
def test_the_operations_are_counted(recipe, shape, seconds):
    """By the speeds of one thread; coding without a kernel takes twice its operations, on four cores."""
    assert estimated(recipe, shape).codes == pytest.approx(seconds, rel=0.02)


def test_trials_share_the_kernel():
    """Each has a spectrum and codes of its own: 4,500 rows, 300 landmarks, 256 functions."""
    a_trial = (25 * 300**3 + 2 * 4_500 * 300 * 256) / 1e10 + 300 * 300 * 384 / 2e9
    seconds = trial_time(Recipe("scan", "klsh"), Shape(4_500, 384), 14, speeds=Fixed())
    assert seconds == pytest.approx(4_500 * 300 * 384 / 2e9 + 14 * a_trial)


def test_other_programs_make_it_slower(monkeypatch):
    """Two that run on four cores leave two thirds of them, if all get the same share."""
    quiet = estimated(Recipe("tables"), PHOTOGRAPHS, 10)
    monkeypatch.undo()
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(os, "getloadavg", lambda: (2.0, 9.0, 9.0), raising=False)
    assert module.crowding() == 1.5
    busy = estimated(Recipe("tables"), PHOTOGRAPHS, 10)
    assert (busy.codes, busy.structure) == (1.5 * quiet.codes, 1.5 * quiet.structure)
    given = build_time(Recipe("tables"), PHOTOGRAPHS, 10, crowded=1.0, speeds=Fixed())
    assert given == quiet


def test_structures_sort():
    """A million entries for each table or order; the scan sorts nothing."""
    a_sort = 1e6 * np.log2(1e6) / 1e8
    assert estimated(Recipe("tables"), PHOTOGRAPHS, 10).structure == pytest.approx(10 * a_sort)
    assert estimated(Recipe("orders"), PHOTOGRAPHS, 16).structure == pytest.approx(16 * a_sort)
    assert estimated(Recipe("table"), PHOTOGRAPHS).structure == pytest.approx(2 * a_sort)
    assert estimated(Recipe("scan"), PHOTOGRAPHS).structure == 0


@pytest.mark.parametrize(
    ("family", "form"), [(family, form) for family in OFFERED for form in forms_named(family)]
)
def test_more_takes_longer(family, form):
    """More functions, rows, landmarks or labels, in every form of every family."""
    shape = replace(TEXTS if FAMILIES[family].takes == "sparse" else PHOTOGRAPHS, n_labels=1_000)
    recipe = Recipe("scan", family, form=form or None, functions=64)
    seconds = estimated(recipe, shape).codes
    assert 0 < seconds < 3_600
    assert estimated(replace(recipe, functions=128), shape).codes > seconds
    assert estimated(recipe, replace(shape, n_rows=2 * shape.n_rows)).codes > seconds
    if recipe.applies("landmarks"):
        assert estimated(replace(recipe, landmarks=1_000), shape).codes > seconds
    if FAMILIES[family].needs_labels:
        assert estimated(recipe, replace(shape, n_labels=5_000)).codes > seconds


def test_speeds_are_measured_once(monkeypatch):
    """Each when it is asked for."""
    asked = []
    monkeypatch.setattr(
        module, "_MEASURED", {kind: lambda kind=kind: asked.append(kind) or 1e9 for kind in module._MEASURED}
    )
    speeds = Speeds()
    for _ in range(2):
        build_time(Recipe("tables", "klsh"), PHOTOGRAPHS, 10, speeds=speeds)
    assert sorted(asked) == ["chi2", "products", "sorting"]


def test_the_speeds_of_this_machine_are_numbers():
    """Of every kind."""
    found = {kind: module.SPEEDS.of(kind) for kind in module._MEASURED}
    assert all(np.isfinite(speed) and speed > 0 for speed in found.values())


def test_earlier_builds_correct_later_estimates():
    """Of the same family, whatever its settings; a short build says nothing."""
    paces, estimate = Paces(), BuildTime(10.0, 2.0)
    paces.learn(Recipe("scan", "rbm"), 4.0, 12.0)
    paces.learn(Recipe("scan"), 0.001, 0.5)
    assert paces.corrected(Recipe("tables", "rbm", functions=64), estimate) == BuildTime(30.0, 2.0)
    assert paces.corrected(Recipe("scan"), estimate) == estimate
    paces.learn(Recipe("scan", "rbm"), 4.0, 8.0)
    assert paces.corrected(Recipe("scan", "rbm"), estimate) == BuildTime(20.0, 2.0)


def test_the_time_is_said_with_about():
    """Before it is paid: of codes and structure, or of a structure alone if it takes long."""
    cost = cost_of(Recipe("tables"), 10**6)
    assert cost.sentence(time=BuildTime(11.0, 3.0)) == (
        "Memory: codes 32 MB, tables 120 MB. To compute: 256 inner products per item, about 10 s."
    )
    assert cost.sentence(is_built=True, time=BuildTime(11.0, 3.0)) == (
        "Memory: codes 32 MB, tables 120 MB. Building the tables takes about 3 s."
    )
    assert cost.sentence(is_built=True, time=BuildTime(11.0, 0.2)) == "Memory: codes 32 MB, tables 120 MB."
    assert brief_of(Recipe("scan", "ksh"), 10**6, BuildTime(300.0, 0.0)) == "from answers, about 5 min"
    assert brief_of(Recipe("scan"), 10**6, BuildTime(12.0, 1.0)) == "256 inner products, about 10 s"
    assert brief_of(Recipe("scan"), 10**6, BuildTime(0.2, 0.0)) == "256 inner products per item"


def test_a_project_knows_what_its_builds_took(tmp_path, monkeypatch):
    """The same codes would take as long again; those that are loaded after a restart say nothing."""
    monkeypatch.setattr(module, "MEASURABLE", 0)
    monkeypatch.setattr(strategies, "CHEAP_SECONDS", 0)
    monkeypatch.setattr(similar, "crowding", lambda: 1.0)
    recipe = Recipe("scan", "spectral", functions=40)

    def search(project):
        view = project.similar_to(project.session())
        view.look_for(Like(item=int(project.pool.ids[0])))
        view.set_recipe(recipe)
        assert settled(view)["similar"]["search"]["awaited"] is None
        return view.session.concept

    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        before = project.similar.build_time(recipe, project.session().concept)
        concept = search(project)
        took = project.similar.seconds(recipe, concept)
        assert project.similar.build_time(recipe, concept).codes == pytest.approx(took) != before.codes
        key = project.key
    with open_workspace(tmp_path) as workspace:
        project = workspace.project(key)
        concept = search(project)
        assert project.similar.build_time(recipe, concept).codes == pytest.approx(before.codes)
        monkeypatch.setattr(kernels, "is_ready", lambda step: False)  # noqa: ARG005
        assert project.similar.build_time(recipe, concept) is None


def test_texts_are_counted_by_their_words(tmp_path):
    """A sample tells the mean number of non-zero features; dense rows have all."""
    with open_workspace(tmp_path) as workspace:
        pool = new_project(workspace).pool
        assert Shape.of(pool, 7) == Shape(len(pool), pool.n_features, None, 7)
    sparse = build(source_from("sets:digits:300"), tmp_path / "sparse")
    rows = sparse.rows(np.arange(len(sparse)))
    assert Shape.of(sparse).n_nonzero == pytest.approx(rows.nnz / len(sparse), rel=0.1)
