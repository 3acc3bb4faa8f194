"""A corpus of hyperplanes for a pool, and a table to check its settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

from closecall.app.display.phrases import counted
from closecall.app.display.pool_output import bytes_in_words
from closecall.app.experiments.bench.experiment import Experiment, Row
from closecall.core.errors import InputError
from closecall.core.experiment.corpus import Corpus
from closecall.core.learning.round import is_positive
from closecall.core.pool.pool import Pool
from closecall.core.selection import strategy_from

SHOWN_ROWS = 10_000
"""Number of evenly spaced items whose wᵀx the table is computed from."""


@dataclass(frozen=True)
class Planes(Experiment[Pool]):
    """A corpus of hyperplanes, saved as a file.

    Parameters
    ----------
    out : Path
        The file (.npz).
    word : str
        Strategy that selects in the sessions, see `core.selection.words`.
    singles, sessions, rounds, before, noise, seed
        See `core.experiment.corpus.Corpus.make`.
    """

    out: Path
    singles: int
    sessions: int
    rounds: int
    word: str
    before: int
    noise: float
    seed: int

    def measure(self, pool: Pool) -> Iterator[list[Row]]:
        """Make the corpus with a progress bar, save it, and yield a row for each setting; see `rows_of`.

        Raises
        ------
        InputError
            If the pool is incomplete or unsuitable, if no hyperplanes are requested, or if the folder of
            `out` does not exist.
        """
        if not pool.complete:
            raise InputError(
                f"the pool {pool.path} is still being built: hyperplanes are for all of its items"
            )
        if not self.singles and not self.sessions:
            raise InputError("--singles and --sessions are both 0: there is nothing to make")
        if not self.out.resolve().parent.is_dir():
            raise InputError(f"--out must be a file in a folder that there is, got {self.out}")
        strategy = strategy_from(self.word).fit(pool) if self.sessions else None
        click.echo(f"{pool.title}: {len(pool):,} items, {len(pool.classes)} classes.")
        with click.progressbar(length=1, label="Training", show_pos=True) as bar:

            def show(done: int, of: int) -> None:
                bar.length = of
                bar.update(done - bar.pos)

            corpus = Corpus.make(
                pool,
                self.singles,
                self.sessions,
                self.rounds,
                strategy=strategy,
                n_before=self.before,
                noise=self.noise,
                seed=self.seed,
                progress=show,
            )
        corpus.save(self.out)
        yield rows_of(corpus, pool)

    def show(self, rows: Sequence[Row]) -> None:
        """Print the number of hyperplanes of each setting, and their position."""
        width = max(len(row["setting"]) for row in rows)
        click.echo(f"{'':{width}}  planes  labels    yes           wᵀx")
        for row in rows:
            yes, place = f"{100 * row['yes']:3.0f} %", f"{row['mean']:.2f} ± {row['spread']:.2f}"
            click.echo(
                f"{row['setting']:{width}}  {row['planes']:6,}  {row['labels']:6.0f}  {yes}  {place:>12}"
            )

    def conclude(self, rows: Sequence[Row]) -> None:
        """Explain the columns, and print the file's size."""
        n = sum(row["planes"] for row in rows)
        click.echo(
            "Means over the hyperplanes. yes: the share of labels whose true class is the positive one. "
            "wᵀx, with the bias: mean and standard deviation over the pool."
        )
        size = bytes_in_words(self.out.stat().st_size)
        click.echo(f"{counted(n, 'hyperplane')} in {self.out}, {size}.")


def rows_of(corpus: Corpus, pool: Pool) -> list[Row]:
    """Return a row per setting: its number of planes, means of labels and of the share of yes, and wᵀx."""
    shown = np.linspace(0, len(pool) - 1, min(SHOWN_ROWS, len(pool))).astype(np.int64)
    X = pool.rows(shown).astype(np.float64)
    rows = []
    for setting in corpus.settings:
        planes = corpus.of(setting)
        scores = [plane.hyperplane.scores(X) for plane in planes]
        yes = [is_positive(pool.truth(plane.labeled), plane.positive).mean() for plane in planes]
        rows.append(
            {
                "setting": setting,
                "planes": len(planes),
                "labels": float(np.mean([len(plane.labeled) for plane in planes])),
                "yes": float(np.mean(yes)),
                "mean": float(np.mean(scores)),
                "spread": float(np.mean(np.std(scores, axis=1))),
            }
        )
    return rows
