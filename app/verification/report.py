"""The findings of a replay, and how they are printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import click
import numpy as np

from closecall.app.display.phrases import counted
from closecall.app.display.strategy_labels import label_of

MOST_LISTED = 20
"""Maximum number of problems that are printed."""


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
    ranks : dict of str to list of int
        For each strategy, the ranks of the items selected when there was a hyperplane. The rank of an item is
        the number of eligible items nearer to the hyperplane, not counting items selected earlier in the same
        batch.
    problems : list of str
        One sentence for each disagreement between the log and the replay.
    """

    answers: int = 0
    imported: int = 0
    selections: int = 0
    digests: int = 0
    choices: int = 0
    ranks: dict[str, list[int]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def summary(self) -> dict[str, Any]:
        """Return the findings as JSON; statistics replace the lists of ranks."""
        ranks = {
            strategy: {
                "selections": len(found),
                "median": float(np.median(found)),
                "max": max(found),
                "nearest_share": float(np.mean(np.equal(found, 0))),
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
        for strategy, rank in self.summary()["ranks"].items():
            click.echo(
                f"  {label_of(strategy)}: {counted(rank['selections'], 'selection')}, median rank "
                f"{rank['median']:,.0f}, at most {rank['max']:,}; "
                f"{100 * rank['nearest_share']:.0f} % are the nearest."
            )
        for problem in self.problems[:MOST_LISTED]:
            click.echo(f"  ✗ {problem}")
        if len(self.problems) > MOST_LISTED:
            click.echo(f"  … and {len(self.problems) - MOST_LISTED:,} more")
        held = counted(len(self.problems), "disagreement") if self.problems else "The log holds"
        click.echo(f"{held}.")


def named(word: str, values: Sequence[object]) -> str:
    """Return the values after their noun `word`, as in "no item", "item 7" or "items 7, 12, 3"."""
    several = "s" if len(values) > 1 else ""
    return f"{word}{several} {', '.join(map(str, values))}" if values else f"no {word}"
