"""Comparison of query strategies on one pool: the cost of a selection, and the rank of the selected item.

For each hyperplane, the strategies select one after the other, in a random order. They therefore work under
the same conditions, and ratios compare times measured shortly after each other. Random subsamples are timed
in the same way (`app.experiments.bench.subsample`). Each strategy can thus be compared with the random
subsample that takes as long.

Each *draw* has its own hyperplanes, hash functions and random choices. Hyperplanes that are loaded from a
file are the same in all draws.

If a hyperplane is from a session, each strategy gets the object that `QueryStrategy.remember` returned for
the previous hyperplane of the session. This object may make selecting faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np

from closecall.app.display.phrases import counted
from closecall.app.display.strategy_labels import name_of
from closecall.app.experiments.bench.boxes import draw_boxes
from closecall.app.experiments.bench.contenders import (
    Contender,
    contenders,
    default_words,
    noting_failure,
    scan_on,
)
from closecall.app.experiments.bench.experiment import Experiment, Row, about
from closecall.app.experiments.bench.figure import check_figure, draw
from closecall.app.experiments.bench.report import share_in_words, show_disturbance, show_table
from closecall.app.experiments.bench.results import BASELINE, Judged, SelectionResults
from closecall.app.experiments.bench.rounds import Round, planes_for, planes_of_other, rounds_of
from closecall.app.experiments.bench.subsample import EqualTimeSubsample
from closecall.core.errors import InputError
from closecall.core.evaluation.rank import BruteForce, margins_of
from closecall.core.experiment.planes import Plane
from closecall.core.pool.pool import Pool
from closecall.core.selection.likely import LikelyPositive

if TYPE_CHECKING:
    from closecall.core.accelerator.device import Device
    from closecall.core.accelerator.kept import KeptRows
    from closecall.core.workers.dask_crew import DaskCrew

HEAD = (
    "strategy",
    "ms",
    "p90",
    "of scan",
    "CPU ms",
    "scored",
    "rank",
    "found",
    "|wᵀx|",
    "same time",
    "ratio",
)

OVER_DRAWS = ("strategy", "rank + 1", f"of {BASELINE}", "of scan", f"of {BASELINE}")
"""Head of the table with intervals over draws: strategy, ranks and their ratios, times and their ratios."""

READY_SECONDS = 120.0
"""Maximum number of seconds to wait until the workers of a cluster are ready."""


def short(number: float) -> str:
    """Return a positive number as text, with two digits or, if it is 10 or more, without decimals."""
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


@dataclass(frozen=True)
class Selection(Experiment[Pool]):
    """An experiment in which each strategy selects one item for each hyperplane.

    Parameters
    ----------
    corpus : Path or None
        File of hyperplanes (`core.experiment.corpus`); None to train SVMs in the setting of the H-Hash paper.
    planes_of : Path or None
        Folder of another pool with the same features, whose hyperplanes are used. None to use hyperplanes of
        the measured pool.
    settings : tuple of str
        Settings of the hyperplanes to use; see `app.experiments.bench.rounds.planes_for`.
    words : tuple of str
        Strategies, see `core.selection.words`; `default_words` if empty. The exhaustive scan and a bare
        matrix–vector product always take part.
    sizes : tuple of int
        Pool sizes to measure: only the first rows of the pool are used. All rows if empty.
    queries : int
        Maximum number of hyperplanes in each setting and draw.
    draws : int
        Number of draws. Draw i has the seed `seed` + i.
    threads : int
        Number of threads that BLAS may use in one call.
    warm_up : int
        Number of hyperplanes for which items are selected before timing starts.
    cold : bool
        Whether to select without `QueryStrategy.remember`.
    indexes : Path or None
        Folder that keeps indexes from one run to the next.
    seed : int
        Seed of the hyperplanes (without `corpus`), the strategies, the subsamples and the order of measuring.
    figure : Path or None
        File for the plot of time against rank.
    boxes : Path or None
        File for the box plots of time and |wᵀx + b|.
    device : Device or None
        Device that the exhaustive scan is also measured on.
    crew : DaskCrew or None
        Workers that help the strategies to search.
    """

    corpus: Path | None
    planes_of: Path | None
    settings: tuple[str, ...]
    words: tuple[str, ...]
    sizes: tuple[int, ...]
    queries: int
    draws: int
    threads: int = field()  # no default: `Experiment` has an attribute of that name
    warm_up: int
    cold: bool
    indexes: Path | None
    seed: int
    figure: Path | None
    boxes: Path | None
    device: Device | None = None
    crew: DaskCrew | None = None

    def __post_init__(self) -> None:
        """Check the options that don't need the pool."""
        check_figure(self.figure)
        check_figure(self.boxes, "--boxes")

    def measure(self, pool: Pool) -> Iterator[list[Row]]:
        """Yield, for each setting, a list with one row per strategy; see `SelectionResults.row`.

        A row is over all draws. If a strategy fails, it is not measured any more. Its row has the reason in
        the column ``failure``, and no results. The rows of failed strategies come last.

        If there are several settings of single hyperplanes, additional rows combine these settings. The same
        applies to several settings of sessions.

        Raises
        ------
        InputError
            If the pool has fewer items than requested, if a strategy, setting or corpus does not exist, or if
            the pool `planes_of` has other features.
        """
        if self.crew is not None:
            pool = pool.with_crew(self.crew)
            if not self.crew.wait_until_ready(pool, READY_SECONDS):
                raise InputError(f"No worker of the Dask cluster can search {pool.path}: the log says why")
        settings = [self._planes(pool, self.seed + number) for number in range(self.draws)]
        sizes = self.sizes or [len(pool)]
        for size in sizes:
            if not 1 <= size <= len(pool):
                raise InputError(
                    f"--items must be from 1 to {len(pool)} for the pool {pool.path}, got {size}"
                )
        kept = _kept_on(self.device, pool) if self.device is not None else None
        for size in sizes:
            yield from self._measure_size(pool.prefix(size), settings, kept)

    def _planes(self, pool: Pool, seed: int) -> dict[str, list[Plane]]:
        """Return the hyperplanes of one draw, by setting."""
        words = (self.corpus, self.settings, self.queries, seed)
        if self.planes_of is None:
            found = planes_for(pool, *words)
        else:
            found = planes_of_other(Pool.open(self.planes_of), pool, *words)
        settings: dict[str, list[Plane]] = {}
        for plane in found:
            settings.setdefault(plane.setting, []).append(plane)
        return settings

    def _measure_size(
        self, pool: Pool, of_draws: Sequence[dict[str, list[Plane]]], kept: KeptRows | None
    ) -> Iterator[list[Row]]:
        failures: dict[str, str] = {}
        words = self.words or default_words(pool)
        measured: dict[str, list[SelectionResults]] = {}
        kinds: dict[str, list[SelectionResults]] = {}
        for number, settings in enumerate(of_draws):
            going = [word for word in words if word not in failures]
            taking_part = contenders(going, pool, self.indexes, self.seed + number, failures)
            taking_part += [scan_on(kept, pool)] if kept is not None else []
            _warm_up(pool, taking_part, next(iter(settings.values()))[: self.warm_up], failures)
            for setting, planes in settings.items():
                rounds = rounds_of(planes, self.queries)
                results = self._measure_setting(pool, taking_part, setting, rounds, number, failures)
                failures = results.failures
                measured.setdefault(setting, []).append(results)
                if number == self.draws - 1:
                    whole = SelectionResults.joined(setting, measured[setting])
                    kind = "all sessions" if planes[0].session >= 0 else "all single"
                    kinds.setdefault(kind, []).append(whole)
                    yield self._rows(pool, taking_part, whole)
        for kind, parts in kinds.items():
            if len(parts) > 1:
                yield self._rows(pool, taking_part, SelectionResults.joined(kind, parts))

    def _rows(self, pool: Pool, taking_part: Sequence[Contender], results: SelectionResults) -> list[Row]:
        words = {
            **about(pool),
            "planes_of": (self.planes_of or pool.path).resolve().name,
            "threads": self.threads,
            "warm_up": self.warm_up,
            "cold": self.cold,
        }
        measured = [
            {**words, "fit_seconds": one.fit_seconds, **results.row(one.word, self.seed)}
            for one in taking_part
            if one.word not in results.failures
        ]
        failed = [
            {**words, "strategy": word, "setting": results.setting, "failure": reason}
            for word, reason in results.failures.items()
        ]
        return measured + failed

    def _measure_setting(
        self,
        pool: Pool,
        taking_part: Sequence[Contender],
        setting: str,
        rounds: Sequence[Round],
        number: int,
        failures: Mapping[str, str],
    ) -> SelectionResults:
        """Measure one setting in draw `number` with the strategies that are not in `failures`.

        The failures of the result are `failures` and the failures in this setting.
        """
        rng = np.random.default_rng(self.seed + number)
        subsample = EqualTimeSubsample(pool, self.seed + number, self.threads)
        results = SelectionResults(
            setting,
            subsample,
            judged={contender.word: [] for contender in taking_part},
            failures=dict(failures),
        )
        of_draws = f", draw {number + 1} of {self.draws}" if self.draws > 1 else ""
        label = f"{setting}, {len(pool):,} items{of_draws}"
        with click.progressbar(rounds, label=label, show_pos=True) as bar:
            for plane, before in bar:
                results.sessions.append(plane.session)
                results.draws.append(number)
                memories: dict[str, tuple[object, float]] = {}
                if before is not None and not self.cold:
                    for contender in _going(taking_part, results.failures):
                        with noting_failure(contender.word, results.failures):
                            memories[contender.word] = contender.remember(before)
                answers = {}
                for place in rng.permutation(len(taking_part) + 1).tolist():
                    if place == len(taking_part):
                        subsample.time(plane.hyperplane)
                    for contender in _going(taking_part[place : place + 1], results.failures):
                        with noting_failure(contender.word, results.failures):
                            memory, _ = memories.setdefault(contender.word, (None, 0.0))
                            answers[contender.word] = contender.answer(plane, memory)
                truths = {
                    key: BruteForce(pool, plane.hyperplane, exclude=plane.labeled, key=key)
                    for key in {np.abs, *map(_key, answers)}
                }
                subsample.rank(truths[np.abs].keys)
                for word, answer in answers.items():
                    with noting_failure(word, results.failures):
                        margin = float(margins_of(pool.rows_of([answer.item]), plane.hyperplane)[0])
                        rank = truths[_key(word)].rank(answer.item)
                        judged = Judged(answer, memories[word][1], margin, rank)
                        results.judged[word].append(judged)
        return results

    def show(self, rows: Sequence[Row]) -> None:
        """Print the rows of one setting as a table, the slowest strategy first."""
        first = rows[0]
        of_draws = f", {first['draws']} draws" if first["draws"] > 1 else ""
        click.echo(
            f"\n{first['data']}, {first['items']:,} × {first['dim']}; {first['setting']}: "
            f"{counted(first['queries'], 'hyperplane')} of {first['planes_of']}"
            f"{of_draws}{', cold' if first['cold'] else ''}, "
            f"{counted(first['threads'], 'BLAS thread')}."
        )
        measured = sorted((row for row in rows if "failure" not in row), key=lambda row: -row["median_ms"])
        show_table(HEAD, [_cells(row) for row in measured])
        if first["draws"] > 1:
            click.echo("\nGeometric means, with 95 % intervals over the draws:\n")
            show_table(OVER_DRAWS, [_cells_over_draws(row) for row in measured])
        for row in rows[len(measured) :]:
            click.echo(f"{row['strategy']} failed: {row['failure']}.")
        show_disturbance({row["strategy"]: row["cpu_share"] for row in measured})

    def conclude(self, rows: Sequence[Row]) -> None:
        """Explain the columns, and draw the requested plots; exit with status 1 if a strategy failed."""
        click.echo(
            "\nms: median time of one selection. of scan: ratio to the exhaustive scan in the same run. CPU "
            "ms: processor time, including what a session remembers. rank: number of items nearer than the "
            "selected one or, for likely-positive, with a larger score; the median. found: how often it is 0."
            " same time: median rank of the nearest of the random rows that can be scored in that time. "
            "ratio: of (rank + 1) to theirs, geometric mean and 95 % interval."
        )
        if self.draws > 1:
            click.echo(
                f"Over draws: of {BASELINE}: ratio to {BASELINE} for the same hyperplane; open if its "
                "interval contains 1."
            )
        measured = [row for row in rows if "failure" not in row]
        if self.figure is not None:
            draw(measured, self.figure)
        if self.boxes is not None:
            draw_boxes(measured, self.boxes)
        if len(measured) < len(rows):
            raise click.exceptions.Exit(1)


def _key(word: str) -> np.ufunc:
    """Return the function of wᵀx + b by which the items that a strategy selects are ranked."""
    return np.negative if name_of(word) == LikelyPositive.name else np.abs


def _kept_on(device: Device, pool: Pool) -> KeptRows:
    """Send the rows of the pool to the device.

    Raises
    ------
    InputError
        If the rows are sparse or the device can't take them.
    """
    from closecall.core.accelerator.kept import KeptRows  # imports torch

    if pool.is_sparse:
        raise InputError(f"--device needs dense rows, but those of the pool {pool.path} are sparse")
    kept = KeptRows(device)
    pool.kept_on(kept).keep_up()
    if kept.problem is not None:
        raise InputError(kept.problem)
    return kept


def _going(taking_part: Sequence[Contender], failures: Mapping[str, str]) -> list[Contender]:
    """Return the contenders that have not failed."""
    return [contender for contender in taking_part if contender.word not in failures]


def _warm_up(
    pool: Pool, taking_part: Sequence[Contender], planes: Sequence[Plane], failures: dict[str, str]
) -> None:
    """Compile kernels, and map the pool and the indexes into this process.

    If a strategy fails, add the reason to `failures`.
    """
    for plane in planes:
        pool.scores(plane.hyperplane)
        for contender in _going(taking_part, failures):
            with noting_failure(contender.word, failures):
                memory, _ = contender.remember(plane.hyperplane)
                contender.answer(plane, None)
                contender.answer(plane, memory)


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row["strategy"],
        f"{row['median_ms']:.2f}",
        f"{row['p90_ms']:.2f}",
        share_in_words(row["ratio_to_exhaustive"]),
        f"{row['cpu_ms_per_round']:.2f}",
        f"{row['scored_median']:,.0f}",
        f"{row['rank_median']:,.0f}",
        f"{100 * row['recall_at_1']:.0f} %",
        f"{row['margin_median']:.2g}",
        f"{row['rank_of_equal_time_subsample']:,.0f}",
        _with_interval(row, "ratio_to_subsample"),
    )


def _cells_over_draws(row: Row) -> tuple[str, ...]:
    ratios = ("rank_ratio_to_baseline", "time_ratio_to_baseline")
    is_compared = row["baseline"] not in (None, row["strategy"])
    of_rank, of_time = (
        _with_interval(row, name, is_difference=True) if is_compared else "" for name in ratios
    )
    of_scan = _with_interval(row, "time_ratio_to_exhaustive", share_in_words)
    return row["strategy"], _with_interval(row, "rank_plus_1"), of_rank, of_scan, of_time


def _with_interval(
    row: Row, name: str, in_words: Callable[[float], str] = short, *, is_difference: bool = False
) -> str:
    """Return a geometric mean with its interval as text; a difference whose interval has 1 is open."""
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    ends = "" if low is None else f" ({in_words(low)}–{in_words(high)})"
    is_open = is_difference and (low is None or low <= 1 <= high)
    return f"{in_words(row[name])}{ends}{' open' if is_open else ''}"
