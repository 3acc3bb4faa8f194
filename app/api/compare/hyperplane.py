"""A comparison of query strategies on hyperplanes trained for a question: picked items, ranks, and times.

The strategies are measured step by step in the background while the page is open; see
`app.api.compare.planes`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from closecall.app.api.compare.lanes import BY_CHANCE, REFERENCE, Compared
from closecall.app.api.compare.planes import Answers, Measurement, last_planes
from closecall.app.display.phrases import counted, many_times, ordinal
from closecall.app.display.strategy_labels import label_of, name_of
from closecall.app.engine.selection_parameters import Sought, place_of_display
from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool

if TYPE_CHECKING:
    from closecall.app.projects.project import Project
    from closecall.app.sessions.labeling import LabelingSession

log = logging.getLogger(__name__)

LEFT_SECONDS = 4.0
"""Measuring pauses after this many seconds without a request from the browser."""

ALIKE = 1.1
"""The headline treats two durations as equal if they differ by less than this factor."""

CLEARLY_FASTER = 2.0
"""The headline calls a strategy that scores as many items as the full scan faster or slower only from this
factor on.
"""


@dataclass(frozen=True)
class Spread:
    """The newest of several values (`now`), and the 10th, 25th, 50th, 75th and 90th percentiles of them."""

    now: float
    low: float
    q1: float
    median: float
    q3: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Return the spread of `values`, which begin with the newest value."""
        return cls(values[0], *np.percentile(values, [10, 25, 50, 75, 90]).tolist())


@dataclass(frozen=True, kw_only=True)
class Row:
    """The row of a strategy on the Compare page.

    Parameters
    ----------
    strategy, label : str
        Name and display name of the strategy.
    in_use : bool
        Whether the session labels with this strategy.
    state : str
        "shown", "coming" or "failed"; in the last two cases `message` gives the reason.
    item, src, alt
        The item picked for the newest hyperplane, its picture and its name.
    ms : Spread
        Times per selection in milliseconds; see `app.api.compare.planes.Answers`.
    ratio : float
        Median time of the full scan, divided by the median time of this strategy.
    margin : Spread
        |wᵀx + b| of the picked items.
    rank, typical_rank : int, float
        `rank` is the picked item's rank for the newest hyperplane; see `app.api.compare.planes.Answers`.
        `typical_rank` is the median rank over all hyperplanes.
    sought : str
        What the selection for the newest hyperplane looked for.
    found : dict of str to tuple of int
        For each thing that was sought: the number of hyperplanes with rank 0, and that of all hyperplanes.
    scored, share : int, float
        Number of items scored for the newest hyperplane, and their share of the pool, 0 … 1.
    """

    strategy: str
    label: str
    in_use: bool
    state: str
    message: str = ""
    item: int = -1
    src: str = ""
    alt: str = ""
    ms: Spread | None = None
    ratio: float = 0.0
    margin: Spread | None = None
    rank: int = 0
    typical_rank: float = 0.0
    sought: Sought = "nearest"
    found: dict[Sought, tuple[int, int]] = field(default_factory=dict)
    scored: int = 0
    share: float = 0.0


class HyperplaneComparison:
    """A comparison of strategies on the last hyperplanes of a session's question. Thread-safe.

    Parameters
    ----------
    session : LabelingSession

    Attributes
    ----------
    compared : Compared
        The strategies.
    """

    def __init__(self, session: LabelingSession) -> None:
        self._session = session
        self._project = session.project
        self.compared = Compared(session)
        self._lock = threading.RLock()
        self._shown: Measurement | None = None
        self._under_way: Measurement | None = None
        self._is_stepping = False
        self._labels_seq = -1
        self._is_due = True
        self._looked = 0.0
        self._trouble: str | None = None

    def is_of(self, project: Project) -> bool:
        """Return whether the comparison belongs to this `Project` object, not to an earlier one."""
        return self._project is project

    def renew(self, *, again: bool = False) -> None:
        """Request a new measurement if the labels have changed or `again` is true."""
        with self._lock:
            self._is_due = self._is_due or again or self._session.concept.catch_up().seq != self._labels_seq

    def page(self) -> dict[str, Any]:
        """Return the whole page as JSON, and keep measuring in the background."""
        failures = self.compared.failures()
        with self._lock:
            self._looked = time.monotonic()
            pool = self._project.pool
            if pool is not None and not self._is_stepping and self._has_work(pool):
                self._is_stepping = True
                self._project.background.submit(self._go_on, pool)
            shown, is_stepping = self._shown, self._is_stepping
        rows = [self._row(word, shown, failures) for word in self.compared.words]
        is_coming = is_stepping or (shown is None and self._trouble is None)
        if shown is None or not shown.planes:
            told: dict[str, Any] = {
                "headline": _nothing(is_coming),
                "about": _why_nothing(is_coming),
                "rows": [],
            }
        else:
            told = {
                "headline": headline(rows, len(shown.pool), shown.pool.item_word),
                "about": self._about(shown, rows),
                "rows": [asdict(row) for row in rows],
                "n": shown.n_done,
            }
            is_coming = is_coming or any(row.state == "coming" for row in rows)
        return {
            "project": self._project.key,
            "session": self._session.id,
            **told,
            "is_coming": is_coming,
            "trouble": self._trouble or self._project.problem(),
        }

    def _has_work(self, pool: Pool) -> bool:
        """Return whether there is something to measure now.

        The first measurement starts as soon as the full scan is ready. If the pool grows or more strategies
        become ready later, the next measurement waits until the pool is complete and all indexes are built.
        """
        ready = self.compared.ready()
        if REFERENCE not in ready:
            return False
        if self._is_due or self._under_way is not None or self._shown is None:
            return True
        is_settled = pool.complete and not self.compared.awaited()
        is_other = self._shown.pool is not pool or bool(ready.keys() - self._shown.answers.keys())
        return is_settled and is_other

    def _go_on(self, pool: Pool) -> None:
        """Measure one step. The next step is a new task, so that other tasks can run in between."""
        goes_on = False
        try:
            measurement = self._measurement(pool)
            if not measurement.is_done:
                measurement.step()
            with self._lock:
                self._under_way = None if measurement.is_done else measurement
                if measurement.is_done or self._shown is None or not self._shown.planes:
                    self._shown = measurement
                goes_on = not measurement.is_done and time.monotonic() - self._looked < LEFT_SECONDS
        except Exception as error:
            log.exception("Strategies can't be compared")
            said = str(error) or type(error).__name__
            self._trouble = f"The strategies can't be compared: {said}"
        finally:
            with self._lock:
                self._is_stepping = goes_on
        if goes_on:
            self._project.background.submit(self._go_on, pool)

    def _measurement(self, pool: Pool) -> Measurement:
        """Return the measurement under way.

        If no measurement is under way, or `renew` has requested a new one, begin a new measurement.
        """
        with self._lock:
            if self._under_way is not None and not self._is_due:
                return self._under_way
            self._is_due, self._under_way, self._trouble = False, None, None
            self._labels_seq = self._session.concept.catch_up().seq
        # The first picture loads the source's libraries, which must not happen while times are taken.
        self._picture(int(pool.ids[0]))
        return Measurement(pool, last_planes(self._session.concept, pool), self.compared.ready())

    def _row(self, word: str, shown: Measurement | None, failures: dict[str, str]) -> Row:
        name, label = name_of(word), label_of(word)
        in_use = word == self.compared.used
        answers = shown.answers.get(word) if shown else None
        failure = failures.get(word) or (answers.failure if answers else None)
        if failure:
            return Row(strategy=name, label=label, in_use=in_use, state="failed", message=failure)
        if shown is None or answers is None or not answers.ranks:
            is_ready = word in self.compared.ready()
            message = "Not measured yet." if is_ready else self.compared.preparation(word)
            return Row(strategy=name, label=label, in_use=in_use, state="coming", message=message)
        item = answers.items[0]
        return Row(
            strategy=name,
            label=label,
            in_use=in_use,
            state="shown",
            item=item,
            src=self._picture(item),
            alt=shown.pool.source.name(item),
            ms=Spread.of([1000 * seconds for seconds in answers.seconds]),
            ratio=float(np.median(shown.answers[REFERENCE].seconds) / np.median(answers.seconds)),
            margin=Spread.of(answers.margins),
            rank=answers.ranks[0],
            typical_rank=float(np.median(answers.ranks)),
            sought=answers.sought[0],
            found=_found(answers),
            scored=answers.scored[0],
            share=answers.scored[0] / len(shown.pool),
        )

    def _picture(self, item: int) -> str:
        try:
            return self._project.pictures.tile(item)
        except InputError:
            return ""

    def _about(self, shown: Measurement, rows: Sequence[Row]) -> str:
        """Return one or two sentences about what was measured and how."""
        n, n_done, pool, newest = len(shown.planes), shown.n_done, shown.pool, shown.planes[0]
        rounds = [record for record in self._session.history if place_of_display(record) != "search"]
        last = rounds[-1] if rounds else None
        is_rounds = last is not None and last.hyperplane_digest == newest.hyperplane.digest
        which = f"the hyperplane of round {last.round}" if last and is_rounds else "the newest hyperplane"
        medians = "one hyperplane" if n == 1 else f"medians of {counted(n_done, 'hyperplane')}"
        medians += f" of {n} so far" if n_done < n else ""
        said = (
            f"{len(pool):,} items × {pool.n_features}, {which} "
            f"({counted(len(newest.labels.y), 'label')}), one thread’s processor time, {medians}, "
            f"all timed side by side in this run."
        )
        hero = _hero(rows)
        found = _successes(hero) if hero is not None and n_done > 1 else []
        covered = {label_of(word): one.strategy.n_items for word, one in shown.answers.items() if one.ranks}
        return " ".join([said, *found, *_lag(covered, len(pool))])


def _found(answers: Answers) -> dict[Sought, tuple[int, int]]:
    """See `Row.found`."""
    ranks: dict[Sought, list[int]] = {}
    for sought, rank in zip(answers.sought, answers.ranks, strict=False):
        ranks.setdefault(sought, []).append(rank)
    return {sought: (of.count(0), len(of)) for sought, of in ranks.items()}


def _successes(hero: Row) -> list[str]:
    """Return a sentence about how often a strategy found what it sought, if it sought the best."""
    words: tuple[tuple[Sought, str], ...] = (("nearest", "nearest item"), ("likeliest", "likeliest yes"))
    told = [
        f"the {word} for {hero.found[sought][0]} of {hero.found[sought][1]}"
        for sought, word in words
        if sought in hero.found
    ]
    return [f"{hero.label} finds {' and '.join(told)}."] if told else []


def _lag(covered: Mapping[str, int], n_items: int) -> list[str]:
    """Return a sentence about strategies that do not cover all items yet, if there are any.

    `covered` has the number of items that each strategy covers, by display name.
    """
    behind = {label: n for label, n in covered.items() if n < n_items}
    if not behind:
        return []
    who = "The indexes cover" if len(behind) == len(covered) else "Some indexes cover"
    if len(behind) == 1:
        who = f"{next(iter(behind))} covers"
    least, most = min(behind.values()), max(behind.values())
    many = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    return [f"{who} only {many} of {n_items:,} items so far; ranks count all items."]


def headline(rows: Sequence[Row], n_items: int, word: str = "item") -> str:
    """Return the sentence that compares the strategy in use with the full scan.

    It calls a strategy faster or slower only if the quartiles of the two strategies' times do not overlap.
    It compares nothing if the strategy does what the full scan does, in about the same time. A strategy that
    did not look for the nearest item is not compared with what the full scan picks.
    """
    hero = _hero(rows)
    if hero is None:
        return "Measuring the strategies…"
    full = next(row for row in rows if row.strategy == REFERENCE)
    if hero.sought == "other":
        return f"Here {hero.label} looks for something other than the nearest {word}."
    is_like_a_scan = hero.scored >= full.scored and not hero.rank
    if is_like_a_scan and 1 / CLEARLY_FASTER < hero.ratio < CLEARLY_FASTER:
        return f"Here {hero.label} scores all {hero.scored:,} {word}s, as a full scan does."
    faster = hero.ratio >= ALIKE and _takes_less(hero, full)
    slower = hero.ratio <= 1 / ALIKE and _takes_less(full, hero)
    if hero.rank or hero.sought == "likeliest":
        best = "likeliest yes" if hero.sought == "likeliest" else "nearest"
        place = f"{ordinal(hero.rank + 1)} {best}" if hero.rank else best
        picks = f"{hero.label} picks the {place} of {n_items:,} {word}s"
        if faster:
            return f"{picks}, {many_times(hero.ratio)} faster than a full scan."
        return (
            f"{picks}, and takes {many_times(1 / hero.ratio) + ' ' if slower else ''}as long as a full scan."
        )
    same = f"the same {word} as a full scan" if hero.item == full.item else "an equally near one"
    picks = f"{hero.label} picks {same}"
    if faster:
        return f"{picks}, {many_times(hero.ratio)} faster."
    return f"{picks}, {f'but takes {many_times(1 / hero.ratio)}' if slower else 'and takes'} as long."


def _takes_less(one: Row, other: Row) -> bool:
    """Return whether three quarters of the one's times are below three quarters of the other's."""
    return one.ms is not None and other.ms is not None and one.ms.q3 < other.ms.q1


def _hero(rows: Sequence[Row]) -> Row | None:
    """Return the row that the headline is about: the row of the strategy in use.

    If that strategy is the full scan or is not measured yet, choose among the measured strategies except the
    full scan and `BY_CHANCE`, and return the row with the lowest median rank. If there is none, return None.
    """
    shown = [row for row in rows if row.state == "shown" and row.strategy != REFERENCE]
    used = [row for row in shown if row.in_use]
    others = [row for row in shown if row.strategy not in BY_CHANCE]
    return next(iter(used), None) or min(others, key=lambda row: (row.typical_rank, -row.ratio), default=None)


def _nothing(is_coming: bool) -> str:
    return "Measuring the strategies…" if is_coming else "There is no hyperplane yet"


def _why_nothing(is_coming: bool) -> str:
    if is_coming:
        return "The last hyperplanes of this question are being retrained from its labels."
    return "Label a yes and a no first. Then you can compare what the strategies pick."
