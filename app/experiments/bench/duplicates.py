"""Recall and precision of the search for near-duplicates, and the time that the search takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter, process_time

import click
import numpy as np
from numpy.typing import NDArray

from closecall.app.experiments.bench.experiment import Experiment, Row, about
from closecall.app.experiments.bench.report import heading, show_table
from closecall.core.duplicates import Groups, WithHeldOut, default_angle, find_bursts, near_duplicates
from closecall.core.duplicates.files import Kind
from closecall.core.experiment.duplicates import (
    COPIES,
    FRAME,
    FramePairs,
    Frames,
    Pairs,
    Rates,
    best_angle,
    choose_angle,
    copies,
    copy_pairs,
    frame_pairs,
    group_rates,
    halves,
    rates,
)
from closecall.core.pool.pool import Pool
from closecall.core.selection import ArrayPool
from closecall.core.selection.diversity import typical_angle

GROUPS: tuple[tuple[Kind, str], ...] = (("near", "in one group"), ("bursts", "in one burst"))

SHARES = np.arange(1, 41) / 40
"""Angles among which the angle for groups is chosen, divided by the median angle between two items."""


@dataclass(frozen=True)
class Duplicates(Experiment[Pool]):
    """Base class of the measurements of near-duplicates, with the options of ``closecall bench duplicates``.

    Parameters
    ----------
    apart : int
        Largest difference between the numbers of two frames that count as near-duplicates.
    pattern : str or None
        Regular expression for the names of frames; None for `FRAME`.
    photos : int
        Number of photographs to alter.
    degrees : float or None
        Angle, in degrees, within which `Speed` finds near-duplicates; None for the default.
    """

    apart: int
    pattern: str | None
    photos: int
    degrees: float | None

    def conclude(self, rows: Sequence[Row]) -> None:
        """Print all rows as a table."""
        first = rows[0]
        click.echo(
            heading(
                first, f"angle chosen on {first['kinds_chosen']} kinds, rates of {first['kinds']} others."
            )
        )
        show_table(["pairs", "angle", "share", "near", "found", "recall", "precision"], map(_cells, rows))
        click.echo("\nshare: angle divided by the median angle between two items of the pool.")


class OfFrames(Duplicates):
    """A measurement on frames that show objects turning in front of a camera.

    Frames taken shortly after each other are near-duplicates. Each row of results is about a different set of
    pairs of frames.
    """

    def measure(self, pool: Pool) -> Iterator[list[Row]]:
        """Yield three rows about pairs within an angle, then four rows about pairs in the same group.

        The first row is about all pairs of frames, the second about the pairs that `FramePairs.clear` marks,
        and the third about the pairs that `FramePairs.following` marks. The next two rows are about groups of
        near-duplicates, with the angle that is best for groups and with the default angle. The last two rows
        are about bursts.

        Raises
        ------
        InputError
            If a name does not match the pattern, if there is only one kind of object, or if no two frames are
            near-duplicates.
        """
        rows = WithHeldOut(pool)
        names = pool.source.names(rows.ids)
        frames = Frames.of(names, self.pattern or FRAME)
        X = np.asarray(rows.rows(np.arange(len(rows))))
        chosen, others = halves(frames.kinds)
        train, test = (_pairs(X, names, frames, places, self.apart) for places in (chosen, others))
        about_all = {
            **about(pool),
            "items": len(rows),
            "apart": self.apart,
            "kinds_chosen": len(np.unique(frames.kinds[chosen])),
            "kinds": len(np.unique(frames.kinds[others])),
        }

        def row(what: str, trained: Pairs, tested: Pairs) -> Row:
            angle = choose_angle(trained)
            found = rates(tested, angle)._replace(n_near=int(test.pairs.near.sum()))
            return _row(pool, what, angle, found) | about_all

        yield [row("all", train.pairs, test.pairs)]
        yield [row("frames of other turns", train.pairs.where(train.clear), test.pairs.where(test.clear))]
        yield [row("in order", train.pairs.where(train.following), test.pairs.where(test.following))]
        parts = [(ArrayPool(X[half]), [names[place] for place in half]) for half in (chosen, others)]
        angles = typical_angle(pool) * SHARES
        for kind, what in GROUPS:
            each = [group_rates(train, _grouped(*parts[0], kind, angle)) for angle in angles]
            best = best_angle(
                angles, np.array([one.recall for one in each]), np.array([one.precision for one in each])
            )
            for angle, which in ((best, what), (default_angle(pool, kind), f"{what}, default")):
                found = group_rates(test, _grouped(*parts[1], kind, angle))
                yield [_row(pool, which, angle, found) | about_all]


class OfCopies(Duplicates):
    """A measurement on altered copies of photographs, for several ways of altering them."""

    def measure(self, pool: Pool) -> Iterator[list[Row]]:
        """Yield a row for each way of altering photographs, then two rows for all ways together.

        The last row has the default angle.

        Raises
        ------
        InputError
            If there are fewer than two photographs, or if the features of copies can't be computed.
        """
        places = np.unique(np.linspace(0, len(pool) - 1, self.photos).astype(np.int64))
        X = np.asarray(pool.rows(places))
        truth = pool.truth(pool.ids[places])
        kinds: NDArray[np.integer] = truth if (truth >= 0).all() else np.arange(len(places))
        chosen, others = halves(kinds)
        altered: dict[str, NDArray[np.float32]] = {}
        with click.progressbar(COPIES, label="Altering photographs", show_pos=True) as ways:
            for way in ways:
                altered[way] = copies(pool.source, pool.ids[places], way)
        train, test = (
            {way: copy_pairs(X[half], Y[half]) for way, Y in altered.items()} for half in (chosen, others)
        )
        angle = choose_angle(_all(train))
        about_all = {
            **about(pool),
            "photos": len(places),
            "kinds_chosen": len(np.unique(kinds[chosen])),
            "kinds": len(np.unique(kinds[others])),
        }
        for way, pairs in {**test, "all": _all(test)}.items():
            yield [_row(pool, way, angle, rates(pairs, angle)) | about_all]
        angle = default_angle(pool, "near")
        yield [_row(pool, "all, default", angle, rates(_all(test), angle)) | about_all]


class Speed(Duplicates):
    """A measurement of the time to find the near-duplicates of a pool."""

    def measure(self, pool: Pool) -> Iterator[list[Row]]:
        """Yield one row."""
        angle = default_angle(pool, "near") if self.degrees is None else float(np.radians(self.degrees))
        near_duplicates(ArrayPool(np.eye(80, dtype=np.float32)), 0.1)  # compiles
        start, busy = perf_counter(), process_time()
        groups = near_duplicates(pool, angle)
        times = {"seconds": perf_counter() - start, "processor_seconds": process_time() - busy}
        found = {**times, "groups": groups.n_groups, "repeated": groups.n_repeated}
        yield [{**about(pool), "degrees": float(np.degrees(angle)), **found}]

    def conclude(self, rows: Sequence[Row]) -> None:
        """Print the row."""
        (row,) = rows
        click.echo(
            heading(
                row,
                f"{row['seconds']:.1f} s ({row['processor_seconds']:.1f} s of processor time) for "
                f"{row['groups']:,} groups within {row['degrees']:.2f}°; "
                f"{row['repeated']:,} items repeat another.",
            )
        )


EXPERIMENTS: dict[str, type[Duplicates]] = {"frames": OfFrames, "copies": OfCopies, "speed": Speed}


def _pairs(
    X: NDArray[np.floating], names: Sequence[str], frames: Frames, places: NDArray[np.int64], k: int
) -> FramePairs:
    return frame_pairs(X[places], [names[place] for place in places], frames.take(places), k)


def _grouped(rows: ArrayPool, names: list[str], kind: Kind, angle: float) -> Groups:
    if kind == "near":
        return near_duplicates(rows, angle)
    return find_bursts(rows, names, np.full(len(names), np.nan), angle=angle, gap=0)


def _row(pool: Pool, what: str, angle: float, found: Rates) -> Row:
    """Return the rates of a rule with this angle."""
    return {
        "what": what,
        "degrees": float(np.degrees(angle)),
        "share": angle / typical_angle(pool),
        **found._asdict(),
        "recall": found.recall,
        "precision": found.precision,
    }


def _all(ways: dict[str, Pairs]) -> Pairs:
    first, *others = ways.values()
    for other in others:
        first = first.joined(other)
    return first


def _cells(row: Row) -> list[str]:
    return [
        row["what"],
        f"{row['degrees']:.2f}°",
        f"{row['share']:.3f}",
        f"{row['n_near']:,}",
        f"{row['n_found']:,}",
        f"{100 * row['recall']:.1f} %",
        f"{100 * row['precision']:.1f} %",
    ]
