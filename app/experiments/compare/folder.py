"""The folder of a comparison.

Only one command at a time can use the folder. Each command continues where the previous one ended.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import click
from filelock import FileLock, Timeout

from closecall.app.display.phrases import duration
from closecall.app.display.pool_output import show_build
from closecall.app.experiments.compare.plan import Plan
from closecall.core.errors import InputError
from closecall.core.files.durable import disk_trouble
from closecall.core.pool.manifest import MANIFEST
from closecall.core.pool.pool import Pool
from closecall.core.sources import source_from

DIGITS = "digits:50000"
"""Source of the default pool, as in ``closecall pool build``."""

P = TypeVar("P", bound=Plan[Any])


@contextmanager
def begun(out: Path, named: Path | None, plan_of: Callable[[Pool], P]) -> Iterator[tuple[P, Pool]]:
    """Lock the comparison's folder, and yield the plan and the pool.

    If the folder has no plan yet, the plan is stored there. Otherwise, the plan must equal the stored plan.
    The size of the comparison and the number of finished units of work (such as races) are printed.

    Parameters
    ----------
    out : Path
        The comparison's folder, created if missing. Other commands can't use it within the context.
    named : Path, optional
        The pool's folder. By default, the subfolder ``pool`` of `out`, where a pool of `DIGITS` is built if
        necessary.
    plan_of : callable
        Makes the plan from the pool and the options of the command.

    Raises
    ------
    InputError
        If another command uses the folder, if the pool is incomplete, or if the stored plan differs.
    """
    with _alone(out):
        pool = _pool_named(named, out)
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, signal.default_int_handler)
        plan = plan_of(pool)
        plan.settle(out, pool.classes)
        n, n_missing = len(plan.units), len(plan.missing(out))
        done = "" if n_missing == n else f" {n - n_missing} of {n} are done already."
        click.echo(plan.size(pool) + done)
        yield plan, pool


def time_left(start: float, share_done: float) -> str:
    """Return the estimated time left, as the end of a line of progress.

    Parameters
    ----------
    start : float
        Time when the work began, from `perf_counter`.
    share_done : float
        Share of the work that is done, above 0 and up to 1.
    """
    return f", about {duration((perf_counter() - start) * (1 / share_done - 1))} left"


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Create the folder `out`, and lock it against other commands."""
    with disk_trouble(out):
        out.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(out / "comparison.lock", timeout=0):
            yield
    except Timeout as error:
        raise InputError(
            f"another command is at work in {out}: wait for it, or choose another folder"
        ) from error


def _pool_named(named: Path | None, out: Path) -> Pool:
    if named is not None:
        pool = Pool.open(named.resolve())
        if not pool.complete:
            raise InputError(f"the pool {pool.path} is incomplete: finish building it first")
        return pool
    folder = (out / "pool").resolve()
    if not ((folder / MANIFEST).is_file() and Pool.open(folder).complete):
        show_build(source_from(DIGITS), folder, threads=None)
    return Pool.open(folder)
