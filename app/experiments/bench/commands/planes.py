"""The command ``closecall bench planes``."""

from __future__ import annotations

from pathlib import Path

import click

from closecall.app.experiments.bench.commands.options import pool_option


@click.command("planes")
@pool_option
@click.option(
    "--out", required=True, type=click.Path(dir_okay=False, path_type=Path), help="File to write (.npz)."
)
@click.option(
    "--singles",
    type=click.IntRange(0),
    default=60,
    show_default=True,
    help="Single hyperplanes of each setting.",
)
@click.option(
    "--sessions", type=click.IntRange(0), default=52, show_default=True, help="Sessions to simulate."
)
@click.option(
    "--rounds", type=click.IntRange(1), default=100, show_default=True, help="Hyperplanes of each session."
)
@click.option(
    "--strategy",
    "word",
    default="exhaustive",
    show_default=True,
    help="What selects in the sessions: NAME or NAME:param=value,param=value.",
)
@click.option(
    "--before",
    type=click.IntRange(0),
    default=0,
    help="Labels that a session begins with, four of five of them hard.  [default: six, at random]",
)
@click.option(
    "--noise",
    type=click.FloatRange(0, 1),
    default=0.05,
    show_default=True,
    help="Share of wrong answers in the sessions that have some.",
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Draws the classes and the labels."
)
def bench_planes(
    folder: Path,
    out: Path,
    singles: int,
    sessions: int,
    rounds: int,
    word: str,
    before: int,
    noise: float,
    seed: int,
) -> None:
    """Train hyperplanes on a pool of known truth and save them, to compare strategies by.

    Single ones are trained on labels drawn at random, in 19 settings. Sessions are simulated: an SVM of one
    class against the rest is retrained after every answer about the item nearest to it. What a strategy
    misses stays in the pool: how often it finds the nearest in long sessions is told by sessions of its own.
    """
    from closecall.app.experiments.bench.planes import make_corpus
    from closecall.core.pool.pool import Pool

    make_corpus(
        Pool.open(folder),
        out,
        singles=singles,
        sessions=sessions,
        rounds=rounds,
        word=word,
        before=before,
        noise=noise,
        seed=seed,
    )
