"""Concepts that are put away."""

from __future__ import annotations

from pathlib import Path

import pytest

from closecall.storage import Archive, Concepts, Database, LabelLog, StorageError
from tests.storage_kit import make_concept, sit_down


@pytest.fixture
def database(where: Path | str):
    with Database.open(where, create=True) as database:
        yield database


def test_what_is_put_away_is_offered_no_longer(database: Database) -> None:
    """Nor when the project is opened again; the others keep their order."""
    archive = Archive(database)
    seven, eight, nine = (make_concept(database, name) for name in ("seven", "eight", "nine"))
    assert archive.offered() == [seven, eight, nine]
    archive.add(eight.id)
    archive.add(eight.id)
    with Database.open(database.place) as reopened:
        assert Archive(reopened).offered() == [seven, nine]


def test_a_replacement_comes_where_the_replaced_concept_was(database: Database) -> None:
    """And so does its own replacement."""
    archive, concepts = Archive(database), Concepts(database)
    seven, eight = (make_concept(database, name) for name in ("seven", "eight"))
    second = concepts.create("seven (2)", "Is it a seven?", instead_of=seven.id)
    assert archive.offered() == [second, eight]
    third = concepts.create("seven (3)", "Is it a seven?", instead_of=second.id)
    assert archive.offered() == [third, eight]
    assert archive.offered(archived=True) == [seven, second, third, eight]
    assert [archive.is_replaced(one.id) for one in (seven, second, third, eight)] == [
        True,
        True,
        False,
        False,
    ]


def test_a_replacement_keeps_the_audit_share(database: Database) -> None:
    """Of the concept that it replaces, as it is then; any other new concept has none."""
    concepts = Concepts(database)
    seven = make_concept(database, "seven")
    concepts.set_audit_share(seven.id, 0.05)
    second = concepts.create("seven (2)", "Is it a seven?", instead_of=seven.id)
    other = concepts.create("seven (3)", "Is it a seven?", archived=True)
    concepts.set_audit_share(second.id, 0.1)
    third = concepts.create("seven (4)", "Is it a seven?", instead_of=second.id)
    shares = [concepts.audit_share(one.id) for one in (seven, second, other, third)]
    assert shares == [0.05, 0.1, 0, 0.1]


def test_all_that_was_said_stays_and_more_may_be_said(database: Database) -> None:
    """A browser that still has the old question open loses no answer."""
    concept = make_concept(database)
    ada = sit_down(database, concept)
    ada.send(ada.record("yes", 5))
    Archive(database).add(concept.id)
    ada.send(ada.record("no", 6))
    assert Concepts(database).all() == [concept]
    assert LabelLog(database).counts(concept.id).labels == 2


def test_only_concepts_can_be_put_away(database: Database) -> None:
    """One sentence names what is not there."""
    with pytest.raises(StorageError, match="no concept 7") as caught:
        Archive(database).add(7)
    assert caught.value.kind == "missing"
