"""Whatever people do, in whatever order: the log means what a plain model says, and nothing fails."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests import scale
from tests.scale import scaled
from tests.stateful.machine import Labeling

PARTS = scaled(quick=1, all=4, long=20)
"""Each on a worker of its own."""


@pytest.mark.parametrize(
    "part", [pytest.param(n, marks=pytest.mark.xdist_group(f"stateful {n}")) for n in range(PARTS)]
)
def test_what_people_do_means_what_the_model_says(part):
    """Nothing is raised, the model agrees with the database at each step, and `verify` holds."""
    run_state_machine_as_test(
        Labeling if scale.current == "long" else seed(part)(Labeling),
        settings=settings(
            max_examples=scaled(quick=4, all=16, long=2000) // PARTS,
            stateful_step_count=scaled(quick=25, all=60, long=60),
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink],
        ),
    )
