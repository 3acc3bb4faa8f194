"""The class that a question asks about, found by its name: "Is it a face?" asks about the class "Faces".

A question names a class if it ends with the name of the class. Letter case, hyphens and underscores don't
matter. The last word may be singular in one and plural in the other. If the names of several classes fit, the
question names the class whose name has the most words. If these names have equally many words, it names the
class that is spelled most like the question. If two are equally close, a person must choose.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from closecall.app.display.phrases import some
from closecall.core.errors import InputError

_IRREGULAR = {
    "child": "children",
    "die": "dice",
    "foot": "feet",
    "goose": "geese",
    "louse": "lice",
    "man": "men",
    "mouse": "mice",
    "ox": "oxen",
    "person": "people",
    "tooth": "teeth",
    "woman": "women",
}


def guess_class(question: str, classes: Sequence[str]) -> str | None:
    """Return the class that a question names, such as "airplane" in "Is it an airplane?".

    Return None if the question names no class, or names two classes equally well.
    """
    named = _named(question, classes)
    return named[0] if len(named) == 1 else None


def positive_class_of(question: str, given: str | None, classes: Sequence[str]) -> str | None:
    """Return the class that means yes, or None if no class does.

    If `given` is None, this is the class that the question names. Otherwise it is `given`, where "" stands
    for no class.

    Raises
    ------
    InputError
        If `given` is not a class.
    """
    if given is None:
        return guess_class(question, classes)
    if given and given not in classes:
        raise InputError(f"The items have no class {given!r}; they have {some(classes)}")
    return given or None


def possible_classes(question: str, classes: Sequence[str]) -> tuple[str, ...]:
    """Return the classes that a person should choose from, because the question does not name exactly one.

    These are the classes that the question names equally well. If it names none, they are the classes with
    the same last word as the question, such as "house_cat" and "wild_cat" for "Is it a cat?". The result is
    empty if `guess_class` finds the class, or if no class is similar.
    """
    named = _named(question, classes)
    if len(named) == 1:
        return ()
    asked = _words(question)
    return named or tuple(
        name for name in classes if asked and (its := _words(name)) and _is_same_noun(its[-1], asked[-1])
    )


def _named(question: str, classes: Sequence[str]) -> tuple[str, ...]:
    """Return the classes that a question names best; there are several if they are equally close."""
    asked = _words(question)
    closeness = {name: found for name in classes if (found := _closeness(question, asked, name)) is not None}
    best = max(closeness.values(), default=None)
    return tuple(name for name, found in closeness.items() if found == best)


def _closeness(question: str, asked: list[str], name: str) -> tuple[int, bool, bool, bool] | None:
    """Return how well a question names a class, or None if it does not.

    The result is the number of words in the name, and whether the last word, the spelling and the letter case
    are the same.
    """
    words = _words(name)
    if not words or not asked or asked[-len(words) : -1] != words[:-1]:
        return None
    if not _is_same_noun(words[-1], asked[-1]):
        return None
    end = " " + " ".join(re.findall(r"[\w-]+", question))
    spelled = " " + " ".join(re.findall(r"[\w-]+", name))
    is_spelled_so = end.casefold().endswith(spelled.casefold())
    return len(words), words[-1] == asked[-1], is_spelled_so, end.endswith(spelled)


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.casefold())


def _is_same_noun(one: str, other: str) -> bool:
    """Return whether two words are equal, or one is the plural of the other."""
    return one == other or one in _plurals(other) or other in _plurals(one)


def _plurals(noun: str) -> set[str]:
    """Return the possible plurals of a noun in lower case; some of them are not words."""
    hisses = noun.endswith(("s", "x", "z", "ch", "sh"))
    found = {f"{noun}es" if hisses else f"{noun}s"}
    if noun in _IRREGULAR:
        found.add(_IRREGULAR[noun])
    if noun.endswith("o"):
        found.add(f"{noun}es")
    if re.search("[^aeiou]y$", noun):
        found.add(f"{noun[:-1]}ies")
    if noun.endswith(("f", "fe")):
        found.add(f"{noun.removesuffix('e')[:-1]}ves")
    for single, several in _IRREGULAR.items():  # "snowman" and "snowmen"
        if len(single) > 2 and noun.endswith(single):
            found.add(noun.removesuffix(single) + several)
    return found
