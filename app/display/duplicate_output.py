"""Near-duplicates and bursts on the command line: finding, saving and listing them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from closecall.app.display.phrases import counted
from closecall.core.duplicates import (
    Groups,
    Rule,
    SavedGroups,
    WithHeldOut,
    default_angle,
    find_bursts,
    folder_of,
    load_groups,
    near_duplicates,
    save_groups,
    straddling,
)
from closecall.core.duplicates.files import Kind
from closecall.core.errors import InputError
from closecall.core.files.durable import disk_trouble, replace_file
from closecall.core.pool.pool import Pool
from closecall.core.sources import Source
from closecall.core.sources.capture_time import taken_at
from closecall.storage.tabular import Column, write_table

GAP = 10.0
"""Default for the longest time between two consecutive photographs of a burst, in seconds."""

GROUPS_SHOWN, ITEMS_SHOWN, BORDER_SHOWN = 10, 4, 10

COLUMNS = (
    Column("group", "whole"),
    Column("item", "whole"),
    Column("name"),
    Column("degrees", "number"),
    Column("held_out", "truth"),
)


def show_duplicates(
    path: Path,
    *,
    kind: Kind,
    degrees: float | None,
    gap: float | None,
    check: bool,
    out: Path | None,
) -> int:
    """Find the groups of the pool at `path`, save and print them, and write them to `out` as CSV.

    `degrees` is the greatest angle between an item and the first item of its group. `gap` is the greatest
    number of seconds between successive shots of a burst. If one of the two is None, use the value with which
    the saved groups were found, or a default if no groups are saved. Held-out items that share a group with
    other items are counted and saved, too. With `check`, list them, and also write them to `out`.

    Returns
    -------
    int
        Number of groups that contain held-out items as well as other items, or 0 without `check`.
    """
    pool = Pool.open(path)
    folder = folder_of(path, kind)
    saved = _saved(folder, pool)
    rule = _rule(pool, kind, degrees, gap, saved)
    both = WithHeldOut(pool)
    names = Names(pool, both.ids)
    if kind == "bursts":
        found, own = _bursts(both, pool, names, rule)
    else:
        found = _near(both, rule, saved.groups if saved and saved.rule == rule else None)
        own = Groups(found.leaders[: len(pool)], found.angles[: len(pool)])
    crossing = straddling(found, len(pool))
    beyond = len(pool) + np.flatnonzero(np.isin(found.leaders[len(pool) :], crossing))
    save_groups(folder, pool, rule, own, both.ids[beyond])
    within = f"within {np.degrees(rule.angle):.2f}° of the first"
    if rule.gap is not None:
        within += f", at most {rule.gap:g} s apart where times are known"
    click.echo(f"{pool.title}: {counted(len(pool), 'item')}, {within}.")
    groups = own.listed()
    n_items = sum(map(len, groups))
    click.echo(
        f"{counted(len(groups), 'group')} of {counted(n_items, 'item')}; {own.n_repeated:,} of them repeat "
        f"another. Saved in {folder}."
    )
    _show_largest(groups, own, names)
    double = 2 * float(np.degrees(rule.angle))
    if kind == "near" and not groups and 0 < double < 90:
        click.echo(f"To find less similar items, double the angle: --angle {double:.3g}")
    if check:
        _show_border(found, crossing, beyond, names)
    if len(beyond):
        n_left = len(pool.held_out) - len(beyond)
        click.echo(
            f"Accuracy is measured without {counted(len(beyond), 'held-out item')} from these groups; "
            f"{n_left:,} are left."
        )
    if out is not None:
        with disk_trouble(out):
            written = found if check else own
            replace_file(out, _as_csv(written, len(pool), names).encode("utf-8", "replace"))
    return len(crossing) if check else 0


class Names:
    """The names of the items in given rows, or names such as "item 12" if the pool's source is missing.

    Parameters
    ----------
    pool : Pool
    ids : array of shape (N,), int64
        Item of each row.
    """

    def __init__(self, pool: Pool, ids: NDArray[np.int64]) -> None:
        self.ids = ids
        self.source: Source | None = None
        try:
            self.source = pool.source
        except InputError as error:
            self._missing = error

    def of(self, rows: NDArray[np.int64]) -> list[str]:
        """Return the names of the items in these rows."""
        items = self.ids[rows]
        return [f"item {item}" for item in items] if self.source is None else self.source.names(items)

    def all(self) -> tuple[list[str], NDArray[np.float64]]:
        """Return the name of each item, and when it was photographed: a time in seconds, NaN if unknown.

        Raises
        ------
        InputError
            If the pool's source is missing.
        """
        if self.source is None:
            raise self._missing
        return self.source.names(self.ids), taken_at(self.source, self.ids)


def _saved(folder: Path, pool: Pool) -> SavedGroups | None:
    """Return the saved groups, or None if no groups are saved or they can't be read."""
    try:
        return load_groups(folder, pool)
    except InputError:
        return None


def _rule(
    pool: Pool, kind: Kind, degrees: float | None, gap: float | None, saved: SavedGroups | None
) -> Rule:
    if degrees is not None:
        angle = float(np.radians(degrees))
    else:
        angle = saved.rule.angle if saved else default_angle(pool, kind)
    if kind == "near":
        return Rule(kind, angle)
    if gap is None:
        gap = saved.rule.gap if saved else GAP
    return Rule(kind, angle, gap)


def _near(rows: WithHeldOut, rule: Rule, earlier: Groups | None) -> Groups:
    with click.progressbar(length=len(rows), label="Comparing", show_pos=True) as bar:
        return near_duplicates(
            rows, rule.angle, earlier=earlier, progress=lambda done, _: bar.update(done - bar.pos)
        )


def _bursts(both: WithHeldOut, pool: Pool, names: Names, rule: Rule) -> tuple[Groups, Groups]:
    """Return the bursts among all photographs, and the bursts without held-out photographs."""
    assert rule.gap is not None
    known, times = names.all()
    n = len(pool)
    found = find_bursts(both, known, times, angle=rule.angle, gap=rule.gap)
    return found, find_bursts(pool, known[:n], times[:n], angle=rule.angle, gap=rule.gap)


def _show_largest(groups: list[NDArray[np.int64]], found: Groups, names: Names) -> None:
    for group in sorted(groups, key=len, reverse=True)[:GROUPS_SHOWN]:
        some = group[:ITEMS_SHOWN]
        items = [
            f"{name} ({np.degrees(found.angles[row]):.1f}°)" if place else name
            for place, (row, name) in enumerate(zip(some, names.of(some), strict=True))
        ]
        more = f", and {len(group) - len(some):,} more" if len(group) > len(some) else ""
        click.echo(f"  {len(group):,}: {', '.join(items)}{more}")
    if len(groups) > GROUPS_SHOWN:
        click.echo(f"  … and {len(groups) - GROUPS_SHOWN:,} more groups")


def _show_border(found: Groups, crossing: NDArray[np.int64], beyond: NDArray[np.int64], names: Names) -> None:
    if not len(crossing):
        click.echo("No group has both held-out items and others.")
        return
    click.echo(
        f"{counted(len(crossing), 'group')} with both held-out items and others; "
        f"{counted(len(beyond), 'held-out item')} in them:"
    )
    for row in beyond[:BORDER_SHOWN]:
        own, first = names.of(np.array([row, found.leaders[row]]))
        click.echo(f"    {own}: {first} ({np.degrees(found.angles[row]):.1f}°)")
    if len(beyond) > BORDER_SHOWN:
        click.echo(f"    … and {len(beyond) - BORDER_SHOWN:,} more")


def _as_csv(found: Groups, n_rows: int, names: Names) -> str:
    stream = io.StringIO(newline="")
    write_table(COLUMNS, _lines(found, n_rows, names), stream, "csv")
    return stream.getvalue()


def _lines(found: Groups, n_rows: int, names: Names) -> Iterator[tuple[object, ...]]:
    for number, group in enumerate(found.listed(), start=1):
        for row, name in zip(group.tolist(), names.of(group), strict=True):
            degrees = round(float(np.degrees(found.angles[row])), 3)
            yield number, int(names.ids[row]), name, degrees, row >= n_rows
