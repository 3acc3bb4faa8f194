"""The class that a question names, in the singular or plural; between two equal ones, a person chooses."""

from __future__ import annotations

import pytest

from closecall.app.projects.positive_class import guess_class, positive_class_of, possible_classes
from closecall.core.errors import InputError


@pytest.mark.parametrize(
    ("question", "classes", "named"),
    [
        ("Is it a face?", ["Faces", "Faces_easy"], "Faces"),
        ("Is it a person?", ["People", "Parson"], "People"),
        ("Are these leaves?", ["Leaf", "Lea"], "Leaf"),
        ("Is it a butterfly?", ["butterflies", "flies"], "butterflies"),
        ("Is it a bus?", ["Buses", "bush"], "Buses"),
        ("Is it a cougar face?", ["face", "cougar_face", "cougar-body"], "cougar_face"),
        ("Is it a face?", ["Faces", "face"], "face"),
        ("Is it a Face?", ["face", "Face"], "Face"),
        ("Is it a tennis ball?", ["Tennis-Balls", "balls"], "Tennis-Balls"),
        ("Is it -1?", ["-1", "1"], "-1"),
        ("Is it a class?", ["clas"], None),
        ("Is it facing?", ["Faces"], None),
        ("?", ["Faces", "?"], None),
        ("", [""], None),
    ],
)
def test_a_question_names_its_class(question: str, classes: list[str], named: str | None) -> None:
    """The longest name counts, and of several the one spelled like the question."""
    assert guess_class(question, classes) == named
    if named is not None:
        assert possible_classes(question, classes) == ()
        assert positive_class_of(question, None, classes) == named


@pytest.mark.parametrize(
    ("question", "classes", "possible"),
    [
        ("Is it a face?", ["FACES", "Faces"], ("FACES", "Faces")),
        ("Is it a cat?", ["dog", "house_cat", "wild_cats"], ("house_cat", "wild_cats")),
        ("Is it a cat?", ["dog", "wild_cat"], ("wild_cat",)),
        ("Is it red?", ["dog", "wild_cat"], ()),
        ("", ["dog"], ()),
    ],
)
def test_where_a_person_must_choose(question: str, classes: list[str], possible: tuple[str, ...]) -> None:
    """Nothing is guessed then."""
    assert guess_class(question, classes) is None
    assert possible_classes(question, classes) == possible


def test_a_given_class_is_one_of_the_items() -> None:
    """Empty means none, whatever the question names."""
    assert positive_class_of("Is it a dog?", "cat", ["dog", "cat"]) == "cat"
    assert positive_class_of("Is it a dog?", "", ["dog", "cat"]) is None
    with pytest.raises(InputError, match="no class 'fox'; they have dog, cat"):
        positive_class_of("Is it a dog?", "fox", ["dog", "cat"])
