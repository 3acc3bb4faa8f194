"""Workers that do not answer: a selection of what is left says so; none is made of nothing."""

from __future__ import annotations

import json

import pytest

from closecall.app.api.cards import card_of
from closecall.app.api.compare.lanes import Compared
from closecall.app.indexes.full_scan import FullScanTimes
from closecall.app.runtime.helpers import Helpers
from closecall.app.sessions.full_scan_check import compare
from closecall.app.sessions.new_project import NewProject
from closecall.app.verification.verify import verify_project
from closecall.core.pool.build import build
from closecall.core.selection.reader import Parts, rows_in
from closecall.core.sources import source_from
from tests.pools import small_parts
from tests.projects import label, open_workspace, wait_for_index
from tests.waiting import until


class Losing:
    """A crew whose answers lack the segments `lost`, or all."""

    def __init__(self):
        self.lost: range | None = range(0)

    def search(self, pool, reader, search):
        everything = range(len(pool.segment_starts))
        lost = everything if self.lost is None else self.lost
        found = [segment for segment in everything if segment not in lost]
        parts = [search.within(pool, found).run(pool, reader, found)] if found else []
        return Parts(parts, tuple(lost))


@pytest.fixture
def crew():
    return Losing()


@pytest.fixture
def workspace(crew, tmp_path):
    with open_workspace(tmp_path / "projects", helpers=Helpers(crew=crew)) as workspace:
        yield workspace


@pytest.fixture
def session(crew, workspace, monkeypatch, tmp_path):
    small_parts(monkeypatch, first=100, segment=100)
    pool = build(source_from("digits:600"), tmp_path / "pool")
    project = workspace.project(workspace.create(NewProject(str(pool.path), "Is this a 7?")))
    wait_for_index(project, "exhaustive")
    session = project.session()
    session.set_strategy("exhaustive")
    label(session, 8)
    return session


def select_again(session) -> dict:
    session.item_view.choose()
    return card_of(session)


def test_an_incomplete_selection_says_so(session, crew, capsys):
    """On the card and in the log. It is not repeated, but counted."""
    pool = session.project.pool
    assert pool.crew is crew
    assert card_of(session)["notes"]["missing"] == 0
    assert "incomplete" not in session.shown.parameters
    crew.lost = range(1, 3)
    lost = rows_in(pool, crew.lost)
    card = select_again(session)
    assert card["notes"]["missing"] == session.shown.parameters["incomplete"] == lost > 0
    assert session.shown.items_scored == len(pool) - lost
    grid = session.project.grid(session)
    grid.attend()
    assert {record.parameters["incomplete"] for record in grid.shown} == {lost}
    crew.lost = range(0)
    assert select_again(session)["notes"]["missing"] == 0
    label(session, 2)
    assert verify_project(session.project.folder, as_json=True) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["incomplete"] >= 2
    assert found["choices"] >= 10
    assert verify_project(session.project.folder) == 0
    assert "incomplete selections not made again: workers had not answered in time" in capsys.readouterr().out


def test_a_selection_of_nothing_is_tried_again(session, crew):
    """The card says why there is no image, and does not say that all are labeled."""
    crew.lost = None
    card = select_again(session)
    assert card["item"] is None
    assert "Workers did not answer in time" in card["message"]
    assert not session.exhausted
    crew.lost = range(0)
    assert card_of(session)["item"] is not None


def test_what_is_compared_with_a_full_scan_is_compared_with_a_whole_one(session, crew):
    """The check, the time of a full scan, and the strategies on Compare never depend on workers."""
    pool, shown = session.project.pool, session.shown
    before = compare(session, shown.id)
    crew.lost = range(5)
    with_losses = compare(session, shown.id)
    assert (with_losses.rank, with_losses.best) == (before.rank, before.best)
    assert (before.rank, before.best) == (0, pytest.approx(shown.margin, rel=1e-9))
    times = FullScanTimes()
    times.note_use()
    times.measure(pool)
    assert times.ms is None
    lanes = Compared(session)
    until(lambda: lanes.settled() is not None)
    compared = lanes.settled()
    assert "exhaustive" in compared
    assert [strategy.pool_.crew for strategy in compared.values()] == [None] * len(compared)
    crew.lost = None
    (item,) = (
        compared["exhaustive"].select(session.concept.train(pool, session.concept.standing()).hyperplane).ids
    )
    assert item in pool.ids
