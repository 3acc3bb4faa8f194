from __future__ import annotations

import pytest

from tests import programs


@pytest.mark.thorough
def test_programs_label_and_read_while_the_server_is_killed(tmp_path):
    """No answer is lost or doubled, and each is read once; ``python -m tests.programs`` kills more often."""
    outcome = programs.run(tmp_path, kills=3, n_items=80, seed=1)
    assert not outcome.wrong, f"\n{outcome}"
