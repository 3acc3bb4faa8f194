"""Query strategies: display names, the strategy that fits a phase of labeling, and the shares of a mixture.

A session's strategy is one string, as on the command line: a name, optionally with parameters, such as
"subsample:n_scored=500".
"""

from __future__ import annotations

from typing import NamedTuple

from closecall.core.errors import InputError
from closecall.core.selection import strategy_from, strategy_names
from closecall.core.selection.auto import Auto, fitting_part
from closecall.core.selection.likely import LikelyPositive
from closecall.core.selection.margin import MarginIndex
from closecall.core.selection.mixture import Mixture
from closecall.core.selection.registry import strategy_class

FAMILY_LABELS = {
    "lsh": "LSH",
    "metric-lsh": "Metric LSH",
    "klsh": "KLSH",
    "kpca-lsh": "KPCA+LSH",
    "nystrom-lsh": "Nyström",
    "spectral": "Spectral",
    "shift-invariant": "Shift-invariant",
    "ksh": "KSH",
    "ksh-learned": "KSH, learned kernel",
    "min-hash": "Min-Hash",
    "boosted": "Boosting",
    "rbm": "RBM",
}
"""Display names of hash families that differ from the names on the command line."""

LABELS = {
    "random": "Random",
    "subsample": "Subsample",
    "exhaustive": "Exhaustive",
    "margin-index": "Margin index",
    "h-hash": "H-Hash",
    "eh-hash": "EH-Hash",
    "bh-hash": "BH-Hash",
    "lbh-hash": "LBH-Hash",
    "h-hash-weighted": "H-Hash, weighted",
    "eh-hash-weighted": "EH-Hash, weighted",
    "bh-hash-weighted": "BH-Hash, weighted",
    "lbh-hash-weighted": "LBH-Hash, weighted",
    "likely-positive": "Likely positive",
    "mixture": "Mixture",
    "auto": "Auto",
    "typiclust": "TypiClust",
    "probcover": "ProbCover",
    "example": "Like the examples",
    "description": "Like the description",
    "audit": "Audit",
    "search": "Found by name",
    "words": "Found by words",
    "lasso": "In a lasso",
    "predicted": "Predictions",
    "similar": "Find similar",
    "overlap": "Overlap",
}
"""Display names of query strategies, and of the other ways in which items are selected."""


class Shares(NamedTuple):
    """Number of items per 100 that each part of a mixture selects."""

    margin: int
    likely: int
    random: int

    @property
    def word(self) -> str:
        """The mixture strategy with these shares, as on the command line."""
        params = ",".join(f"{part}={share / 100:g}" for part, share in self._asdict().items())
        return f"{Mixture.name}:{params}"

    @classmethod
    def of(cls, word: str) -> Shares | None:
        """Return the shares in the mixture strategy `word`, or None for other strategies."""
        if name_of(word) != Mixture.name:
            return None
        params = strategy_from(word).params()
        margin, likely = round(100 * params["margin"]), round(100 * params["likely"])
        return cls(margin, likely, 100 - margin - likely)


def fitting(used: str, *, yes: int, no: int) -> str:
    """Return the name of the strategy that fits a question with these numbers of yes and no answers.

    If Auto is used, it fits always; see `core.selection.auto.fitting_part` for the others.
    """
    if name_of(used) == Auto.name:
        return Auto.name
    return LikelyPositive.name if fitting_part(yes, no) == "likely" else MarginIndex.name


def about(name: str) -> str:
    """Return one line about what a strategy selects; "" if there is none, or the strategy can't be loaded."""
    try:
        return strategy_class(name).about
    except InputError:
        return ""


def name_of(word: str) -> str:
    """Return the strategy's name, without parameters."""
    return word.partition(":")[0]


def all_labels(used: str = "") -> dict[str, str]:
    """Return the name and display name of each query strategy that pages offer, in their order.

    If `used`, the strategy of a session, is not among them, it comes last.
    """
    names = [*strategy_names(), *([name_of(used)] if used else [])]
    return {name: label_of(name) for name in names}


def label_of(word: str) -> str:
    """Return the strategy's display name, without parameters."""
    name = name_of(word)
    return LABELS.get(name, name.replace("-", " ").capitalize())
