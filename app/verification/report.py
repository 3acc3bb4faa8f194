"""The findings of a replay, and how they are printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import click
import numpy as np

from closecall.app.display.phrases import counted
from closecall.app.display.strategy_labels import label_of
from closecall.app.engine.selection_parameters import is_hurried, sought_by
from closecall.storage import SelectionRecord

MOST_LISTED = 20
"""Maximum number of problems that are printed."""


HURRIED_RANKS = ", hurried"
"""Suffix of the keys of `Findings.ranks` for hurried selections; see `is_hurried`."""

BY_SCORE = ", by score"
"""Suffix of the keys of `Findings.ranks` for likely positives; see `sought`."""

OTHERS = ", not near"
"""Suffix of the keys of `Findings.ranks` for items that need not be near; see `sought`."""


@dataclass
class Findings:
    """Findings of a replay.

    Parameters
    ----------
    answers, selections : int
        Numbers of answers and selections in the log.
    imported : int
        Number of answers that came from files.
    digests, choices : int
        Number of hyperplanes that were trained again, and number of selections that were repeated. Items
        selected together count as one selection.
    replaced : int
        Number of selections that can't be repeated because their predictions have been replaced since.
    incomplete : int
        Number of selections that can't be repeated because workers had not answered in time.
    ranks : dict of str to list of int
        For each strategy, the ranks of the items selected when there was a hyperplane. The rank of an item is
        the number of eligible items nearer to the hyperplane or, for likely positives, with a larger score.
        Items selected earlier in the same batch are not counted. Likely positives have their own keys, and so
        have other items that need not be near, and hurried selections, which may be less accurate; see
        `name_of_ranks`.
    problems : list of str
        One sentence for each disagreement between the log and the replay.
    """

    answers: int = 0
    imported: int = 0
    selections: int = 0
    digests: int = 0
    choices: int = 0
    replaced: int = 0
    incomplete: int = 0
    ranks: dict[str, list[int]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def summary(self) -> dict[str, Any]:
        """Return the findings as a dict for JSON; statistics replace the lists of ranks."""
        ranks = {
            strategy: {
                "selections": len(found),
                "median": float(np.median(found)),
                "max": max(found),
                "first_share": float(np.mean(np.equal(found, 0))),
            }
            for strategy, found in sorted(self.ranks.items())
        }
        return asdict(self) | {"ranks": ranks}

    def show(self) -> None:
        """Print the findings."""
        click.echo(
            f"{counted(self.answers, 'answer')} and {counted(self.selections, 'selection')} in the log."
        )
        if self.imported:
            click.echo(f"{self.imported:,} of the answers came from files.")
        planes, choices = counted(self.digests, "hyperplane"), counted(self.choices, "selection")
        click.echo(f"{planes} trained again, {choices} made again.")
        if self.replaced:
            click.echo(
                f"{counted(self.replaced, 'selection')} not made again: the predictions have been replaced."
            )
        if self.incomplete:
            click.echo(
                f"{counted(self.incomplete, 'incomplete selection')} not made again: workers had not "
                "answered in time."
            )
        for name, rank in self.summary()["ranks"].items():
            first = "have the largest score" if BY_SCORE in name else "are the nearest"
            click.echo(
                f"  {_label_of_ranks(name)}: {counted(rank['selections'], 'selection')}, median rank "
                f"{rank['median']:,.0f}, at most {rank['max']:,}; "
                f"{100 * rank['first_share']:.0f} % {first}."
            )
        for problem in self.problems[:MOST_LISTED]:
            click.echo(f"  ✗ {problem}")
        if len(self.problems) > MOST_LISTED:
            click.echo(f"  … and {len(self.problems) - MOST_LISTED:,} more")
        held = counted(len(self.problems), "disagreement") if self.problems else "The log holds"
        click.echo(f"{held}.")


def name_of_ranks(record: SelectionRecord) -> str:
    """Return the key of a selection in `Findings.ranks`: the strategy, and suffixes for its kind."""
    kind = {"nearest": "", "likeliest": BY_SCORE, "other": OTHERS}[sought_by(record)]
    return record.strategy + kind + (HURRIED_RANKS if is_hurried(record) else "")


def _label_of_ranks(name: str) -> str:
    strategy, *suffixes = name.split(", ")
    return ", ".join([label_of(strategy), *suffixes])


def named(word: str, values: Sequence[object]) -> str:
    """Return the values after their noun `word`, as in "no item", "item 7" or "items 7, 12, 3"."""
    several = "s" if len(values) > 1 else ""
    return f"{word}{several} {', '.join(map(str, values))}" if values else f"no {word}"
