"""The times of the sessions' last activity."""

from __future__ import annotations

import pytest

from closecall.storage import Activity, Database
from tests.storage_kit import ENGINES


@pytest.fixture(params=ENGINES)
def database(request, tmp_path):
    where = request.getfixturevalue("server").schema() if request.param == "postgresql" else tmp_path / "db"
    with Database.open(where, create=True) as opened:
        yield opened


def test_the_last_time_of_each_session_is_kept_until_it_is_old(database):
    """A closed page's time is negative, until its session is active again."""
    now = [1_000]
    activity = Activity(database, lambda: now[0])
    activity.note("ada")
    activity.note("bob")
    now[0] = 2_000
    activity.note("ada")
    activity.note("cleo", is_left=True)
    assert activity.times() == {"ada": 2_000, "bob": 1_000, "cleo": -2_000}
    activity.forget(1_001)
    assert activity.times() == {"ada": 2_000, "cleo": -2_000}
    now[0] = 3_000
    activity.note("cleo")
    activity.forget(2_001)
    assert activity.times() == {"cleo": 3_000}
