"""What a replay of a log found, and how it is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import click
import numpy as np

from closecall.app.display.strategy_labels import label_of

SAID_AT_MOST = 20
"""Problems that are printed in full."""


@dataclass
class Findings:
    """What a replay found.

    Parameters
    ----------
    answers, selections : int
        Rows of the log.
    imported : int
        Answers of them that came from files.
    digests, choices : int
        Hyperplanes trained again and selections made again.
    ranks : dict
        For each strategy and each of its selections with a hyperplane, how many items that it could have
        chosen are nearer, those that were selected at once before it left out.
    problems : list of str
        One sentence for each disagreement.
    """

    answers: int = 0
    imported: int = 0
    selections: int = 0
    digests: int = 0
    choices: int = 0
    ranks: dict[str, list[int]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def summary(self) -> dict[str, Any]:
        """All of it, with the ranks by strategy: how many, median, largest, and the share of the nearest."""
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
        """Print it."""
        click.echo(f"{self.answers:,} answers and {self.selections:,} selections in the log.")
        if self.imported:
            click.echo(f"{self.imported:,} of the answers came from files.")
        click.echo(f"{self.digests:,} hyperplanes trained again, {self.choices:,} selections made again.")
        for strategy, rank in self.summary()["ranks"].items():
            click.echo(
                f"  {label_of(strategy)}: {rank['selections']:,} selections, median rank "
                f"{rank['median']:,.0f}, at most {rank['max']:,}; "
                f"{100 * rank['nearest_share']:.0f} % are the very nearest."
            )
        for problem in self.problems[:SAID_AT_MOST]:
            click.echo(f"  ✗ {problem}")
        if len(self.problems) > SAID_AT_MOST:
            click.echo(f"  … and {len(self.problems) - SAID_AT_MOST:,} more")
        click.echo("The log holds." if not self.problems else f"{len(self.problems):,} disagreements.")


def named(word: str, values: Sequence[object]) -> str:
    """None, one or several: "no item", "item 7", "items 7, 12, 3"."""
    several = "s" if len(values) > 1 else ""
    return f"{word}{several} {', '.join(map(str, values))}" if values else f"no {word}"
