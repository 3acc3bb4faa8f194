"""Comparison of query strategies on one pool: the cost of a selection, and the rank of the selected item.

For each hyperplane, the strategies select one after the other, in a random order. They therefore work under
the same conditions, and ratios compare times measured shortly after each other. Random subsamples are timed
in the same way (`app.experiments.bench.subsample`). Each strategy can thus be compared with the random
subsample that takes as long.

If a hyperplane is from a session, each strategy gets the object that `QueryStrategy.remember` returned for
the previous hyperplane of the session. This object may make selecting faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click
import numpy as np

from closecall.app.display.phrases import counted
from closecall.app.experiments.bench.boxes import draw_boxes
from closecall.app.experiments.bench.contenders import (
    REFERENCE,
    Contender,
    contenders,
    default_words,
    noting_failure,
)
from closecall.app.experiments.bench.experiment import Experiment, Row, about
from closecall.app.experiments.bench.figure import check_figure, draw
from closecall.app.experiments.bench.report import share_in_words, show_disturbance, show_table
from closecall.app.experiments.bench.results import Judged, SelectionResults
from closecall.app.experiments.bench.rounds import Round, planes_for, planes_of_other, rounds_of
from closecall.app.experiments.bench.subsample import EqualTimeSubsample
from closecall.core.errors import InputError
from closecall.core.evaluation.rank import BruteForce, margins_of
from closecall.core.experiment.planes import Plane
from closecall.core.pool.pool import Pool

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
        Maximum number of hyperplanes in each setting.
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
    """

    corpus: Path | None
    planes_of: Path | None
    settings: tuple[str, ...]
    words: tuple[str, ...]
    sizes: tuple[int, ...]
    queries: int
    threads: int = field()  # no default: `Experiment` has an attribute of that name
    warm_up: int
    cold: bool
    indexes: Path | None
    seed: int
    figure: Path | None
    boxes: Path | None

    def __post_init__(self) -> None:
        """Check the options that don't need the pool."""
        check_figure(self.figure)
        check_figure(self.boxes, "--boxes")

    def measure(self, pool: Pool) -> Iterator[list[Row]]:
        """Yield, for each setting, a list with one row per strategy; see `SelectionResults.row`.

        If a strategy fails, its row has the reason in the column ``failure``, and no results. The rows of
        failed strategies come last.

        If there are several settings of single hyperplanes, additional rows combine these settings. The same
        applies to several settings of sessions.

        Raises
        ------
        InputError
            If the pool has fewer items than requested, if a strategy, setting or corpus does not exist, or if
            the pool `planes_of` has other features.
        """
        settings: dict[str, list[Plane]] = {}
        words = (self.corpus, self.settings, self.queries, self.seed)
        if self.planes_of is None:
            found = planes_for(pool, *words)
        else:
            found = planes_of_other(Pool.open(self.planes_of), pool, *words)
        for plane in found:
            settings.setdefault(plane.setting, []).append(plane)
        sizes = self.sizes or [len(pool)]
        for size in sizes:
            if not 1 <= size <= len(pool):
                raise InputError(
                    f"--items must be from 1 to {len(pool)} for the pool {pool.path}, got {size}"
                )
        for size in sizes:
            yield from self._measure_size(pool.prefix(size), settings)

    def _measure_size(self, pool: Pool, settings: dict[str, list[Plane]]) -> Iterator[list[Row]]:
        failures: dict[str, str] = {}
        taking_part = contenders(self.words or default_words(pool), pool, self.indexes, self.seed, failures)
        _warm_up(pool, taking_part, next(iter(settings.values()))[: self.warm_up], failures)
        words = {
            **about(pool),
            "planes_of": (self.planes_of or pool.path).resolve().name,
            "threads": self.threads,
            "warm_up": self.warm_up,
            "cold": self.cold,
        }

        def rows(results: SelectionResults) -> list[Row]:
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

        kinds: dict[str, list[SelectionResults]] = {}
        for setting, planes in settings.items():
            rounds = rounds_of(planes, self.queries)
            results = self._measure_setting(pool, taking_part, setting, rounds, failures)
            failures = results.failures
            kinds.setdefault("all sessions" if planes[0].session >= 0 else "all single", []).append(results)
            yield rows(results)
        for kind, parts in kinds.items():
            if len(parts) > 1:
                yield rows(SelectionResults.joined(kind, parts))

    def _measure_setting(
        self,
        pool: Pool,
        taking_part: Sequence[Contender],
        setting: str,
        rounds: Sequence[Round],
        failures: Mapping[str, str],
    ) -> SelectionResults:
        """Measure one setting with the strategies that are not in `failures`.

        The failures of the result are `failures` and the failures in this setting.
        """
        rng = np.random.default_rng(self.seed)
        subsample = EqualTimeSubsample(pool, self.seed, self.threads)
        results = SelectionResults(
            setting,
            subsample,
            judged={contender.word: [] for contender in taking_part},
            failures=dict(failures),
        )
        with click.progressbar(rounds, label=f"{setting}, {len(pool):,} items", show_pos=True) as bar:
            for plane, before in bar:
                results.sessions.append(plane.session)
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
                truth = BruteForce(pool, plane.hyperplane, exclude=plane.labeled)
                subsample.rank(truth.margins)
                for word, answer in answers.items():
                    with noting_failure(word, results.failures):
                        margin = float(margins_of(pool.rows_of([answer.item]), plane.hyperplane)[0])
                        judged = Judged(answer, memories[word][1], margin, truth.rank(answer.item))
                        results.judged[word].append(judged)
        return results

    def show(self, rows: Sequence[Row]) -> None:
        """Print the rows of one setting as a table, the slowest strategy first."""
        first = rows[0]
        click.echo(
            f"\n{first['data']}, {first['items']:,} × {first['dim']}; {first['setting']}: "
            f"{counted(first['queries'], 'hyperplane')} of {first['planes_of']}"
            f"{', cold' if first['cold'] else ''}, "
            f"{counted(first['threads'], 'BLAS thread')}."
        )
        measured = [row for row in rows if "failure" not in row]
        show_table(HEAD, [_cells(row) for row in sorted(measured, key=lambda row: -row["median_ms"])])
        for row in rows[len(measured) :]:
            click.echo(f"{row['strategy']} failed: {row['failure']}.")
        scan = next(row for row in rows if row["strategy"] == REFERENCE)
        show_disturbance(scan["cpu_ms_per_round"] / scan["median_ms"])

    def conclude(self, rows: Sequence[Row]) -> None:
        """Explain the columns, and draw the requested plots; exit with status 1 if a strategy failed."""
        click.echo(
            "\nms: median time of one selection. of scan: ratio to the exhaustive scan in the same run. CPU "
            "ms: processor time, including what a session remembers. rank: number of items nearer than the "
            "selected one; the median. found: how often it is the nearest. same time: median rank of the "
            "nearest of the random rows that can be scored in that time. ratio: of (rank + 1) to theirs, "
            "geometric mean and 95 % interval."
        )
        measured = [row for row in rows if "failure" not in row]
        if self.figure is not None:
            draw(measured, self.figure)
        if self.boxes is not None:
            draw_boxes(measured, self.boxes)
        if len(measured) < len(rows):
            raise click.exceptions.Exit(1)


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
    low, high = row["ratio_to_subsample_low"], row["ratio_to_subsample_high"]
    interval = "" if low is None else f" ({_short(low)}–{_short(high)})"
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
        f"{_short(row['ratio_to_subsample'])}{interval}",
    )


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"
