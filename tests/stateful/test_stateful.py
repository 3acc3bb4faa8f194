"""Whatever people do, in whatever order: the log means what a plain model says, and nothing fails."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.scale import scaled
from tests.stateful.machine import Labeling


def test_what_people_do_means_what_the_model_says():
    """Nothing is raised, the model agrees with the database at each step, and `verify` holds."""
    run_state_machine_as_test(
        Labeling,
        settings=settings(
            max_examples=scaled(quick=4, all=60, long=2000),
            stateful_step_count=scaled(quick=25, all=60, long=60),
            deadline=None,
            derandomize=scaled(quick=True, all=True, long=False),
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink],
        ),
    )
