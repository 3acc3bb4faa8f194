"""What a pool tells about codes before they are built."""

from __future__ import annotations

import pytest

from closecall.app.indexes import estimates as module
from closecall.app.indexes.costs import guarantee_of
from closecall.app.indexes.estimates import Estimates
from closecall.app.indexes.recipe import Recipe
from closecall.app.sessions.similar.query import Like
from closecall.core.hashing import ShiftInvariantHash
from closecall.core.hashing.fourier import bandwidth
from closecall.core.hashing.pool import fit_rows
from closecall.core.pool.pool import Pool
from tests.projects import digits_pool, new_project, open_workspace
from tests.similar import settled

RECIPE = Recipe("tables", "shift-invariant", radius=20.0)


def test_the_width_of_the_kernel_is_estimated_once(monkeypatch):
    """By few rows, near to what fitting finds; other codes and tables without a radius don't need it."""
    calls = []

    def counted(*given):
        calls.append(given)
        return bandwidth(*given)

    monkeypatch.setattr(module, "bandwidth", counted)
    pool = Pool.open(digits_pool())
    snapshots = [pool.prefix(300)]
    estimates = Estimates(lambda: snapshots[-1])
    assert estimates.family(Recipe("tables", radius=20.0)) is None
    assert estimates.family(Recipe("tables", "shift-invariant")) is None
    for _ in range(2):
        found = estimates.family(RECIPE)
    assert len(calls) == 1
    fitted = ShiftInvariantHash().fit(snapshots[-1].rows(fit_rows(300)))
    assert found.gamma == pytest.approx(float(fitted.gamma_), rel=0.1)
    snapshots.append(pool)  # has doubled: a family would be fitted to other rows
    assert estimates.family(RECIPE).gamma != found.gamma
    assert len(calls) == 2
    snapshots.append(None)
    assert estimates.family(RECIPE) is None
    assert estimates.build_time(RECIPE, 0, None) is None


def test_the_fitted_family_takes_the_place_of_the_estimate(tmp_path):
    """Once the codes are built, whatever the structure; the sentence is then no estimate."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        similar, n = project.similar, len(project.pool)
        assert "at least about" in guarantee_of(RECIPE, n, similar.agreeing(RECIPE))
        view = project.similar_to(project.session())
        view.look_for(Like(item=int(project.pool.ids[0])))
        view.set_recipe(Recipe("scan", "shift-invariant"))
        assert settled(view)["similar"]["search"]["awaited"] is None
        assert "at least about" not in guarantee_of(RECIPE, n, similar.agreeing(RECIPE))
