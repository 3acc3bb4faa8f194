"""The command ``closecall bench planes``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from closecall.app.experiments.bench.commands.options import count_option, pool_option, seed_option


@click.command("planes")
@pool_option
@click.option(
    "--out", required=True, type=click.Path(dir_okay=False, path_type=Path), help="File to write (.npz)."
)
@count_option("--singles", 60, "Single hyperplanes of each setting.", least=0)
@count_option("--sessions", 52, "Sessions to simulate.", least=0)
@count_option("--rounds", 100, "Hyperplanes of each session.")
@click.option(
    "--strategy",
    "word",
    default="exhaustive",
    show_default=True,
    help="Strategy that selects in the sessions: NAME or NAME:param=value,param=value.",
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
@seed_option("classes and labels")
def bench_planes(folder: Path, out: Path, **words: Any) -> None:
    """Train hyperplanes on a pool of known classes and save them, for comparisons of strategies.

    Single hyperplanes are trained on labels drawn at random, in 19 settings. Sessions are simulated: an SVM
    of one class against the rest is retrained after every answer about the item nearest to its hyperplane.
    With --strategy, the items are selected by that strategy instead. It may miss the nearest item, which then
    stays in the pool, as in a real session.
    """
    from closecall.app.experiments.bench.planes import make_corpus
    from closecall.core.pool.pool import Pool

    make_corpus(Pool.open(folder), out, **words)
