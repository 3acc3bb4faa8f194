"""Make a corpus of hyperplanes for a pool, and print a table that summarizes each setting."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np

from closecall.app.display.phrases import counted
from closecall.core.errors import InputError
from closecall.core.experiment.corpus import Corpus
from closecall.core.files.sizes import bytes_in_words
from closecall.core.learning.round import is_positive
from closecall.core.pool.pool import Pool
from closecall.core.selection import strategy_from

SHOWN_ROWS = 10_000
"""Number of items, evenly spaced in the pool, whose wᵀx + b the table summarizes."""


def make_corpus(
    pool: Pool,
    out: Path,
    *,
    singles: int,
    sessions: int,
    rounds: int,
    word: str,
    before: int,
    noise: float,
    seed: int,
) -> Corpus:
    """Make a corpus of hyperplanes while showing progress, save it as the file `out`, and print a summary.

    Parameters
    ----------
    pool : Pool
        A complete pool of known classes.
    out : Path
        File to write, in an existing folder.
    singles : int
        Number of single hyperplanes in each setting.
    sessions, rounds : int
        Number of simulated sessions, and number of hyperplanes in each.
    word : str
        Strategy that selects in the sessions; see `core.selection.words`.
    before, noise, seed
        See `Corpus.make`, where `before` is called `n_before`.

    Raises
    ------
    InputError
        If the pool is incomplete or unsuitable, if no hyperplanes are requested, if the strategy is unknown,
        or if the folder of `out` does not exist.
    """
    if not pool.complete:
        raise InputError(f"the pool {pool.path} is still being built: hyperplanes are for all of its items")
    if not singles and not sessions:
        raise InputError("--singles and --sessions are both 0: there is nothing to make")
    if not out.resolve().parent.is_dir():
        raise InputError(f"--out must be a file in a folder that there is, got {out}")
    strategy = strategy_from(word).fit(pool) if sessions else None
    click.echo(f"{pool.title}: {len(pool):,} items, {len(pool.classes)} classes.")
    with click.progressbar(length=1, label="Training", show_pos=True) as bar:

        def show(done: int, of: int) -> None:
            bar.length = of
            bar.update(done - bar.pos)

        corpus = Corpus.make(
            pool,
            singles,
            sessions,
            rounds,
            strategy=strategy,
            n_before=before,
            noise=noise,
            seed=seed,
            progress=show,
        )
    corpus.save(out)
    show_corpus(corpus, pool)
    click.echo(f"{counted(len(corpus.planes), 'hyperplane')} in {out}, {bytes_in_words(out.stat().st_size)}.")
    return corpus


def show_corpus(corpus: Corpus, pool: Pool) -> None:
    """Print a table with a line for each setting.

    A line has the number of hyperplanes, followed by averages over these hyperplanes: the number of labels,
    the share of positive labels, and the mean and standard deviation of wᵀx + b over rows of the pool.
    """
    shown = np.linspace(0, len(pool) - 1, min(SHOWN_ROWS, len(pool))).astype(np.int64)
    X = pool.rows(shown).astype(np.float64)
    width = max(len(setting) for setting in corpus.settings)
    click.echo(f"{'':{width}}  planes  labels    yes           wᵀx")
    for setting in corpus.settings:
        planes = corpus.of(setting)
        scores = [plane.hyperplane.scores(X) for plane in planes]
        mean, spread = np.mean(scores), np.mean(np.std(scores, axis=1))
        labels = np.mean([len(plane.labeled) for plane in planes])
        yes = np.mean([is_positive(pool.truth(plane.labeled), plane.positive).mean() for plane in planes])
        place = f"{mean:.2f} ± {spread:.2f}"
        click.echo(f"{setting:{width}}  {len(planes):6,}  {labels:6.0f}  {100 * yes:3.0f} %  {place:>12}")
    click.echo(
        "Means over the hyperplanes. yes: the share of labels whose true class is the positive one. "
        "wᵀx, with the bias: mean and standard deviation over the pool."
    )
