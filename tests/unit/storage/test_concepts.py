"""Concepts and examples."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from closecall.storage import Concepts, Database, StorageError
from closecall.storage.models import MAX_EXAMPLE_BYTES

PNG = b"\x89PNG\r\n\x1a\n and then some"


@pytest.fixture
def concepts(where: Path | str) -> Iterator[Concepts]:
    """The concepts of an empty database."""
    with Database.open(where, create=True) as database:
        yield Concepts(database, clock=lambda: 1_700_000_000_000)


def test_a_concept_is_found_by_id_and_name(concepts: Concepts) -> None:
    """What was written is read, trimmed, whatever its language."""
    made = concepts.create("  Möwe ", " Ist das eine Möwe? ", guideline="Auch von hinten.", c=0.3)
    assert (made.name, made.question, made.c, made.class_weight) == ("Möwe", "Ist das eine Möwe?", 0.3, None)
    assert concepts.named("Möwe") == concepts.get(made.id) == made
    assert concepts.all() == [made]
    assert concepts.named("Gans") is None


@pytest.mark.parametrize(
    "bad",
    [
        {"name": " "},
        {"question": ""},
        {"name": "x" * 201},
        {"c": 0},
        {"c": float("nan")},
        {"class_weight": "heavy"},
    ],
    ids=str,
)
def test_impossible_concepts_are_refused(concepts: Concepts, bad: dict[str, Any]) -> None:
    """One sentence says what is not allowed, and nothing is written."""
    with pytest.raises(StorageError) as caught:
        concepts.create(**({"name": "a", "question": "b?"} | bad))
    assert caught.value.kind == "invalid"
    assert concepts.all() == []


def test_names_are_unique(concepts: Concepts) -> None:
    """Two concepts of one name could not be told apart, neither when made nor when renamed."""
    first, second = concepts.create("a", "a?"), concepts.create("b", "b?")
    with pytest.raises(StorageError, match="named 'a' already"):
        concepts.create("a ", "again?")
    with pytest.raises(StorageError, match="named 'a' already"):
        concepts.update(second.id, name="a")
    assert concepts.update(first.id, name="a", question="c?").question == "c?"


def test_updates_know_their_fields(concepts: Concepts) -> None:
    """An unknown field or concept is an error, not a silence."""
    made = concepts.create("a", "a?")
    with pytest.raises(StorageError, match="no 'colour'"):
        concepts.update(made.id, colour="red")
    with pytest.raises(StorageError, match="no concept 99"):
        concepts.update(99, c=2.0)


def test_examples_come_back_exactly(concepts: Concepts) -> None:
    """The image to the byte, the feature to the bit."""
    concept = concepts.create("a", "a?")
    feature = np.linspace(-1, 1, 384, dtype=np.float32)
    made = concepts.add_example(concept.id, PNG, True, feature)
    plain = concepts.add_example(concept.id, PNG, False)
    found = concepts.examples(concept.id)
    assert [e.id for e in found] == [made.id, plain.id]
    assert found[0].image == PNG
    assert found[0].feature is not None
    assert found[0].feature.dtype == np.float32
    assert np.array_equal(found[0].feature, feature)
    assert (found[1].feature, found[1].is_positive) == (None, False)


def features_of(store: Concepts, concept_id: int, through: int | None = None) -> list[list[float] | None]:
    """Features of the examples, oldest first."""
    found = store.examples(concept_id, through)
    return [None if example.feature is None else example.feature.tolist() for example in found]


def test_examples_have_other_features_under_another_description(concepts: Concepts) -> None:
    """Nothing is known of them until they are described; what the first description says stays as it was."""
    made, clip = concepts.create("a", "b?"), concepts.under("clip")
    first = concepts.add_example(made.id, PNG, True, [0.5, 1.5])
    assert [example.id for example in clip.undescribed()] == [first.id]
    assert (features_of(concepts, made.id), features_of(clip, made.id)) == ([[0.5, 1.5]], [None])
    clip.describe_example(first.id, [1.0, 2.0, 3.0])
    second = clip.add_example(made.id, PNG + b"2", False, [4.0, 5.0, 6.0])
    assert second.feature is not None
    assert second.feature.tolist() == [4.0, 5.0, 6.0]
    assert features_of(clip, made.id) == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    assert features_of(concepts, made.id) == [[0.5, 1.5], None]
    assert clip.undescribed() == []
    assert [example.id for example in concepts.undescribed()] == [second.id]
    concepts.describe_example(second.id, [9.0, 9.0])
    assert features_of(concepts, made.id) == [[0.5, 1.5], [9.0, 9.0]]
    assert features_of(clip, made.id, first.id) == [[1.0, 2.0, 3.0]]
    again = clip.add_example(made.id, PNG, True, [7.0, 7.0, 7.0])
    assert (again.id, features_of(clip, made.id)[0]) == (first.id, [1.0, 2.0, 3.0])


def test_an_example_without_features_is_described_once(concepts: Concepts) -> None:
    """A model may find none in an image; and who has withdrawn an example needs none."""
    made, clip = concepts.create("a", "b?"), concepts.under("clip")
    first = concepts.add_example(made.id, PNG, True, [0.5])
    second = concepts.add_example(made.id, PNG + b"2", True, [0.7])
    clip.describe_example(first.id, None)
    concepts.withdraw_example(second.id)
    assert clip.undescribed() == []
    clip.describe_example(first.id, [0.9])
    assert features_of(clip, made.id) == [None]
    with pytest.raises(StorageError) as caught:
        clip.describe_example(second.id, [float("nan")])
    assert caught.value.kind == "invalid"


def test_withdrawn_examples_still_count_in_the_past(concepts: Concepts) -> None:
    """A replay trains on the examples of its time."""
    concept = concepts.create("a", "a?")
    first = concepts.add_example(concept.id, PNG, True)
    second = concepts.add_example(concept.id, PNG, False)
    before = concepts.examples_position(concept.id)
    concepts.withdraw_example(first.id)
    concepts.withdraw_example(first.id)
    assert [e.id for e in concepts.examples(concept.id)] == [second.id]
    assert [e.id for e in concepts.examples(concept.id, before)] == [first.id, second.id]
    assert concepts.examples_position(concept.id) == before + 1
    with pytest.raises(StorageError, match="no example 99"):
        concepts.withdraw_example(99)


def test_a_withdrawn_description_can_return(concepts: Concepts) -> None:
    """The last word counts, for each concept and description; earlier ones are never changed."""
    first, second = concepts.create("a", "a?"), concepts.create("b", "b?")
    assert concepts.withdrawn(first.id) == frozenset()
    concepts.set_withdrawn(first.id, "ab12", True, annotator="ada")
    concepts.set_withdrawn(first.id, "cd34", True, annotator="ada")
    concepts.set_withdrawn(second.id, "ab12", True, annotator="bob")
    concepts.set_withdrawn(first.id, "ab12", False, annotator="bob")
    assert concepts.withdrawn(first.id) == {"cd34"}
    assert concepts.withdrawn(second.id) == {"ab12"}
    with pytest.raises(StorageError):
        concepts.set_withdrawn(99, "ab12", True, annotator="ada")
    for statement in ("UPDATE withdrawals SET is_withdrawn = NOT is_withdrawn", "DELETE FROM withdrawals"):
        with pytest.raises(StorageError, match="append-only"), concepts.database.write() as connection:
            connection.exec_driver_sql(statement)


@pytest.mark.parametrize(
    ("image", "feature"),
    [
        (b"GIF89a", None),
        (PNG + bytes(MAX_EXAMPLE_BYTES), None),
        (PNG, [[1.0]]),
        (PNG, [float("nan")]),
        (PNG, []),
    ],
    ids=["no PNG", "too big", "two axes", "NaN", "empty"],
)
def test_impossible_examples_are_refused(concepts: Concepts, image: bytes, feature: Any) -> None:
    """Only a PNG of bounded size, with a finite feature if any."""
    concept = concepts.create("a", "a?")
    with pytest.raises(StorageError) as caught:
        concepts.add_example(concept.id, image, True, feature)
    assert caught.value.kind == "invalid"
    assert concepts.examples_position(concept.id) == 0
