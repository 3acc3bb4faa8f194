"""Query strategies written as one word, as on the command line:

exhaustive                              with default parameters
subsample:n_scored=500                  with one parameter
h-hash:structure=orders,megabytes=400   with several parameters

A value is read as the first of these types that the parameter allows: true, false, none, an integer, a float,
or text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from closecall.core.errors import InputError
from closecall.core.selection.base import QueryStrategy
from closecall.core.selection.reader import PoolRows
from closecall.core.selection.registry import make_strategy, strategy_class

FORM = "NAME or NAME:param=value,param=value"

_NAMED = {"true": True, "false": False, "none": None}
_KINDS = {int: "a whole number", float: "a number", bool: "true or false", NoneType: "none"}


def strategy_from(word: str, *, random_state: int = 0) -> QueryStrategy:
    """Make a new, unfitted strategy with the name and parameters given by `word`.

    Parameters
    ----------
    word : str
        Name and parameters, written as in the docstring of this module.
    random_state : int
        Value of the parameter `random_state` if the word does not give one.

    Raises
    ------
    InputError
        If there is no such strategy, if it has no such parameter, or if a value is not allowed.
    """
    name, texts = parts_of(word)
    params = {"random_state": random_state, **values_of(name, texts, strategy_class(name))}
    return make_strategy(name, **params)


def covering(words: Iterable[str], pool: PoolRows) -> list[str]:
    """Return the words whose strategies can be used on the pool, in the given order."""
    return [word for word in words if _covers(strategy_from(word), pool)]


def _covers(strategy: QueryStrategy, pool: PoolRows) -> bool:
    try:
        strategy.check_pool(pool)
    except InputError:
        return False
    return True


def parts_of(word: str) -> tuple[str, dict[str, str]]:
    """Split a word like "subsample:n_scored=500" into the name and the text of each parameter.

    Raises
    ------
    InputError
        If the word is malformed, or gives a parameter twice.
    """
    name, colon, rest = word.partition(":")
    texts: dict[str, str] = {}
    for part in rest.split(",") if colon else []:
        param, _, text = (side.strip() for side in part.partition("="))
        if not param or not text or param in texts:
            raise InputError(f"a strategy must be {FORM}, each parameter once; got {word!r}")
        texts[param] = text
    return name, texts


def values_of(name: str, texts: dict[str, str], cls: type[Any]) -> dict[str, Any]:
    """Convert the texts of `parts_of` to values of the types that a class declares for its parameters.

    A parameter that the class does not declare may have any value here. `name` is used in error messages.

    Raises
    ------
    InputError
        If a value is not allowed for a parameter.
    """
    kinds = _kinds(cls)
    return {param: _value(name, param, text, kinds.get(param, Any)) for param, text in texts.items()}


def _kinds(cls: type[Any]) -> dict[str, Any]:
    """Return the types of the parameters, as far as the class declares them."""
    try:
        return get_type_hints(cls.__init__)
    except NameError:
        return {}


def _value(name: str, param: str, text: str, kind: Any) -> object:
    for reading in _readings(text):
        if _fits(reading, kind):
            return reading
    raise InputError(f"{param} of {name} must be {_in_words(kind)}, got {text!r}")


def _readings(text: str) -> Iterator[object]:
    if text.lower() in _NAMED:
        yield _NAMED[text.lower()]
    for number in (int, float):
        try:
            yield number(text)
        except ValueError:
            continue
    yield text


def _fits(value: object, kind: Any) -> bool:
    if kind is Any:
        return True
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if get_origin(kind) in (Union, UnionType):
        return any(_fits(value, one) for one in get_args(kind))
    if kind in (int, float) and isinstance(value, bool):
        return False
    return isinstance(value, (int, float) if kind is float else kind)


def _in_words(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(map(str, get_args(kind)))
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(map(_in_words, get_args(kind)))
    return _KINDS.get(kind, str(kind))
