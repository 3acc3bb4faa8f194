"""The times of the sessions' last activity."""

from __future__ import annotations

import pytest

from closecall.storage import Activity, Database, StorageError
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
    assert activity.times() == {}
    activity.store()
    now[0] = 2_000
    activity.note("ada")
    activity.note("cleo", is_left=True)
    activity.store()
    assert activity.times() == {"ada": 2_000, "bob": 1_000, "cleo": -2_000}
    activity.forget(1_001)
    assert activity.times() == {"ada": 2_000, "cleo": -2_000}
    now[0] = 3_000
    activity.note("cleo")
    activity.store()
    activity.forget(2_001)
    assert activity.times() == {"cleo": 3_000}


def test_the_first_activity_a_closed_page_and_its_return_are_urgent(database):
    """They decide who may have the items; what comes in between can wait."""
    activity, urgent = Activity(database), []
    activity.urgent = lambda: urgent.append(len(urgent))
    for is_left in (False, False, True, True, False, False):
        activity.note("ada", is_left=is_left)
    assert len(urgent) == 3
    activity.note("bob")
    assert len(urgent) == 4


def test_what_could_not_be_stored_is_stored_later(database, monkeypatch):
    """Not over what has become known in the meantime."""
    now = [1_000]
    activity = Activity(database, lambda: now[0])
    activity.note("ada")
    activity.note("bob")

    def fail(**_: object) -> None:
        now[0] = 2_000
        activity.note("bob", is_left=True)
        raise StorageError("the disk is full", "full")

    with monkeypatch.context() as broken:
        broken.setattr(database, "write", fail)
        with pytest.raises(StorageError):
            activity.store()
    activity.store()
    assert activity.times() == {"ada": 1_000, "bob": -2_000}
