"""Registry of query strategies by name, including the strategies that other packages register."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any

from closecall.core.errors import InputError
from closecall.core.selection.auto import Auto
from closecall.core.selection.base import QueryStrategy
from closecall.core.selection.contenders import CONTENDERS
from closecall.core.selection.exhaustive import ExhaustiveSearch
from closecall.core.selection.hashed import (
    BHHashSearch,
    EHHashSearch,
    HHashSearch,
    LBHHashSearch,
    WeightedBHHash,
    WeightedEHHash,
    WeightedHHash,
    WeightedLBHHash,
)
from closecall.core.selection.likely import LikelyPositive
from closecall.core.selection.margin import MarginIndex
from closecall.core.selection.mixture import Mixture
from closecall.core.selection.random import RandomSampling
from closecall.core.selection.subsample import Subsample

ENTRY_POINTS = "closecall.strategies"
"""Entry point group in which a package registers strategies: ``my-strategy = "my_package:MyStrategy"``."""

FORMER_ENTRY_POINTS = "marginalia.strategies"
"""Name of the entry point group before the program was renamed to Closecall."""

FORMER_DEFAULTS = {"refills": False, "explores": False, "scans": True}
"""Values of parameters that the logs of earlier versions do not contain."""

FORMER_PACKAGES = ("app", "core", "storage")
"""Top-level packages that are now subpackages of `closecall`."""

STRATEGIES: dict[str, type[QueryStrategy]] = {
    cls.name: cls
    for cls in (
        RandomSampling,
        Subsample,
        ExhaustiveSearch,
        MarginIndex,
        HHashSearch,
        EHHashSearch,
        BHHashSearch,
        LBHHashSearch,
        WeightedHHash,
        WeightedEHHash,
        WeightedBHHash,
        WeightedLBHHash,
        LikelyPositive,
        Mixture,
        Auto,
    )
}


def strategy_names() -> list[str]:
    """Return the names of all available strategies; the strategies of this package come first."""
    return [
        *STRATEGIES,
        *sorted({entry.name for entry in entry_points(group=ENTRY_POINTS)} - set(STRATEGIES)),
    ]


def strategy_class(name: str) -> type[QueryStrategy]:
    """Return the class of the strategy `name`.

    Raises
    ------
    InputError
        If there is no strategy of that name, or if the strategy of another package cannot be loaded, is not a
        `QueryStrategy`, or is registered only in `FORMER_ENTRY_POINTS`.
    """
    if own := STRATEGIES.get(name) or CONTENDERS.get(name):
        return own
    for entry in entry_points(group=ENTRY_POINTS, name=name):
        try:
            found = entry.load()
        except (ImportError, AttributeError) as error:
            missing = str(getattr(error, "name", None)).partition(".")[0]
            if isinstance(error, ModuleNotFoundError) and missing in FORMER_PACKAGES:
                raise InputError(
                    f"strategy {name} of {entry.value} cannot be loaded: it imports {missing}, "
                    f"which is now closecall.{missing}"
                ) from error
            raise InputError(f"strategy {name} of {entry.value} cannot be loaded: {error}") from error
        if not (isinstance(found, type) and issubclass(found, QueryStrategy)):
            raise InputError(f"strategy {name} of {entry.value} is not a QueryStrategy")
        return found
    for entry in entry_points(group=FORMER_ENTRY_POINTS, name=name):
        raise InputError(
            f"strategy {name} of {entry.value} is registered in the group {FORMER_ENTRY_POINTS}: "
            f"register it in {ENTRY_POINTS}, and reinstall its package"
        )
    raise InputError(f"strategy must be one of {', '.join(strategy_names())}, got {name!r}")


def make_strategy(name: str, *, random_state: int = 0, **params: Any) -> QueryStrategy:
    """Make a new, unfitted strategy.

    Parameters
    ----------
    name : str
        One of `strategy_names`.
    random_state : int
        Seed of random choices when the strategy builds its index.
    **params
        Further parameters of the class of the strategy.

    Raises
    ------
    InputError
        If there is no strategy of this name, or if it does not have one of the parameters.
    """
    cls = strategy_class(name)
    try:
        return cls(random_state=random_state, **params)
    except TypeError as error:
        allowed = ", ".join(cls.param_names())
        raise InputError(f"{name} has the parameters {allowed}; got {', '.join(params)}") from error


def strategy_of_log(name: str, params: Mapping[str, Any]) -> QueryStrategy:
    """Make the strategy that a log names, unfitted, with the logged parameters; see `FORMER_DEFAULTS`.

    Raises
    ------
    InputError
        See `make_strategy`.
    """
    known = strategy_class(name).param_names()
    former = {param: value for param, value in FORMER_DEFAULTS.items() if param in known}
    return make_strategy(name, **{**former, **params})
