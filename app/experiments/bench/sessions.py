"""Measure how long selections take in parallel labeling sessions at a person's pace.

The sessions of a corpus (`core.experiment.corpus`) are replayed, each in its own thread. As on the pages, a
session can remember an earlier hyperplane: the session keeps the scores of the pool's items under that
hyperplane, because these scores make later selections faster (`app.engine.strategy_memory`).

A round begins at its scheduled time, or when the previous round ends if that is later. Nothing else runs
during a replay. The exhaustive scans for comparison are timed before and after each replay. The true nearest
items are computed after the first replay.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from threading import Thread
from typing import Literal, get_args

import click
import numpy as np
from numpy.typing import NDArray

from closecall.app.engine.strategy_memory import WORTHWHILE_SECONDS, Memories
from closecall.app.experiments.bench.contenders import (
    REFERENCE,
    Answer,
    Contender,
    StrategyContender,
    contenders,
)
from closecall.app.experiments.bench.experiment import Experiment, Row, about
from closecall.app.experiments.bench.report import share_in_words, show_disturbance
from closecall.app.experiments.bench.rounds import planes_for
from closecall.app.experiments.bench.statistics import recall_low
from closecall.core.errors import InputError
from closecall.core.experiment.planes import Plane
from closecall.core.pool.pool import Pool
from closecall.core.selection import QueryStrategy, Request, make_strategy

Mode = Literal["auto", "on", "off"]
MODES: tuple[Mode, ...] = get_args(Mode)
"""When sessions remember hyperplanes.

"auto": if selecting is slow, as on the pages; "on": always; "off": never.
"""

SCANS = 10
"""Number of exhaustive scans to time before the replay in each mode, and to time again after the replay."""

AT_ONCE = 20
"""Number of hyperplanes whose true nearest items are found in one pass over the pool."""

LEAD_SECONDS = 0.2
"""Seconds from the start of a replay to the earliest time when a round is due."""


@dataclass(frozen=True)
class Round:
    """The measured results of one round, which is one selection.

    Parameters
    ----------
    ms, cpu_ms : float
        Wall-clock and processor time of the selection, in milliseconds.
    late_ms : float
        Delay of the start of the round, in milliseconds.
    age : int or None
        Number of rounds since the hyperplane that the session remembered; None if it remembered none.
    margin : float
        |wᵀx + b| of the selected item.
    """

    ms: float
    cpu_ms: float
    late_ms: float
    age: int | None
    margin: float


@dataclass
class Session:
    """A session to replay, with one hyperplane per round, and the results of the rounds replayed so far."""

    name: str
    planes: Sequence[Plane]
    rounds: list[Round] = field(default_factory=list)

    def play(self, index: QueryStrategy, memories: Memories | None, start: float, pace: float) -> None:
        """Replay the session: select an item for each hyperplane, and append the results to `rounds`.

        Parameters
        ----------
        index : QueryStrategy
            Strategy that selects.
        memories : Memories or None
            Memories of all sessions; None if sessions don't remember hyperplanes.
        start : float
            Time when the first round is due, on the clock `time.perf_counter`.
        pace : float
            Seconds from one round to the next.
        """
        numbers = {plane.hyperplane.digest: number for number, plane in enumerate(self.planes)}
        for number, plane in enumerate(self.planes):
            due = start + number * pace
            time.sleep(max(0.0, due - time.perf_counter()))
            began, computing = time.perf_counter(), time.thread_time()
            remembered = memories.newest(self.name, index) if memories else None
            memory = remembered.memory if remembered else None
            selection = index.select(plane.hyperplane, exclude=plane.labeled, memory=memory)
            seconds, cpu_seconds = time.perf_counter() - began, time.thread_time() - computing
            if memories:
                memories.offer(self.name, index, plane.hyperplane, cpu_seconds)
            self.rounds.append(
                Round(
                    ms=1000 * seconds,
                    cpu_ms=1000 * cpu_seconds,
                    late_ms=1000 * (began - due),
                    age=number - numbers[remembered.digest] if remembered else None,
                    margin=float(selection.margins[0]),
                )
            )


@dataclass(frozen=True)
class Sessions(Experiment[Pool]):
    """An experiment that replays sessions at a person's pace, with one BLAS thread.

    Parameters
    ----------
    corpus : Path
        File of a `core.experiment.corpus.Corpus` with sessions.
    n_sessions, rounds : int
        Number of sessions, and number of rounds in each.
    pace : float
        Seconds from one round of a session to the next.
    modes : tuple of Mode
        Modes to replay the sessions in, one after the other.
    settings : tuple of str
        Settings of the sessions to replay; see `app.experiments.bench.rounds.planes_for`.
    word : str
        The strategy; see `core.selection.words`.
    indexes : Path or None
        Folder that keeps indexes from one run to the next.
    seed : int
        Seed of the strategy and of the start times. Each session starts at a random time in the first `pace`
        seconds.
    """

    threads = 1

    corpus: Path
    n_sessions: int
    rounds: int
    pace: float
    modes: tuple[Mode, ...]
    settings: tuple[str, ...]
    word: str
    indexes: Path | None
    seed: int

    def measure(self, pool: Pool) -> Iterator[list[Row]]:
        """Yield one row for each mode; see `figures`.

        Raises
        ------
        InputError
            If there are too few sessions with `rounds` rounds, or if the strategy is unknown.
        """
        planes = planes_for(pool, self.corpus, self.settings, 0, self.seed)
        chosen = sessions_of(planes, self.n_sessions, self.rounds)
        _, scan, *others = contenders([self.word], pool, self.indexes, self.seed)
        asked = others[0] if others else scan
        assert isinstance(asked, StrategyContender)
        _warm_up(asked, chosen[0])
        truth: NDArray[np.float64] | None = None
        for mode in self.modes:
            sessions = [Session(str(number), own) for number, own in enumerate(chosen)]
            scans = _time_scans(scan, chosen)
            cpu_ms = self._play(sessions, asked.strategy, mode)
            scans += _time_scans(scan, chosen)
            if truth is None:
                truth = _least_margins(pool, chosen)
            found = figures(sessions, self.pace, scans, cpu_ms, truth)
            yield [{"strategy": self.word, **about(pool), "memory": mode, **found}]

    def _play(self, sessions: Sequence[Session], index: QueryStrategy, mode: Mode) -> float:
        """Replay all sessions to their end; return the processor time of this process in milliseconds."""
        memories = None if mode == "off" else Memories(WORTHWHILE_SECONDS if mode == "auto" else 0.0)
        offsets = np.random.default_rng(self.seed).uniform(0, self.pace, len(sessions))
        cpu = time.process_time()
        start = time.perf_counter() + LEAD_SECONDS
        threads = [
            Thread(target=session.play, args=(index, memories, start + offset, self.pace), daemon=True)
            for session, offset in zip(sessions, offsets.tolist(), strict=True)
        ]
        for thread in threads:
            thread.start()
        n_rounds = sum(len(session.planes) for session in sessions)
        with click.progressbar(length=n_rounds, label=f"Memory {mode}", show_pos=True) as bar:
            while any(thread.is_alive() for thread in threads):
                bar.update(sum(len(session.rounds) for session in sessions) - bar.pos)
                time.sleep(0.2)
        if memories:
            memories.close()
        return 1000 * (time.process_time() - cpu)

    def show(self, rows: Sequence[Row]) -> None:
        """Print the row of a mode."""
        (row,) = rows
        sessions = f"{row['sessions']} session{'s' if row['sessions'] > 1 else ''}"
        click.echo(
            f"\n{row['strategy']}, {row['data']}, {row['items']:,} × {row['dim']}; {sessions}, a round every "
            f"{row['pace_seconds']:g} s; memory {row['memory']}:"
        )
        median, p90 = (
            share_in_words(row["ratio_to_exhaustive"]),
            share_in_words(row["p90_ratio_to_exhaustive"]),
        )
        click.echo(
            f"  Selecting takes {row['median_ms']:.1f} ms in the median ({median} of an exhaustive scan), "
            f"at most {row['p90_ms']:.1f} ms in 9 of 10 rounds ({p90}), {row['p99_ms']:.1f} ms in 99 of 100."
        )
        click.echo(
            f"  It computes for {row['cpu_median_ms']:.1f} ms "
            f"({share_in_words(row['cpu_ratio_to_exhaustive'])}); "
            f"with what remembering takes, a round costs {row['cpu_ms_per_round']:.1f} ms of a processor."
        )
        if row["with_memory"]:
            click.echo(
                f"  Something was remembered in {100 * row['with_memory']:.0f} % of the rounds, "
                f"{row['memory_age_median']:.0f} rounds old in the median, "
                f"at most {row['memory_age_p90']:.0f} in 9 of 10."
            )
        kept = "is kept" if row["sustained"] else "is too fast"
        click.echo(f"  The pace {kept}: rounds began at most {row['late_max_ms']:.0f} ms late.")
        found, low = 100 * row["recall_at_1"], 100 * row["recall_at_1_low"]
        click.echo(
            f"  The nearest item was found in {found:.1f} % of {row['sessions'] * row['rounds']:,} rounds "
            f"(at least {low:.1f} %, with 95 % confidence)."
        )
        show_disturbance({REFERENCE: row["scan_cpu_share"]})


def sessions_of(planes: Sequence[Plane], n_sessions: int, n_rounds: int) -> list[list[Plane]]:
    """Return the first `n_rounds` rounds of the first `n_sessions` sessions that are long enough.

    Raises
    ------
    InputError
        If fewer than `n_sessions` sessions are long enough.
    """
    own = [plane for plane in planes if plane.session >= 0]
    found = [list(group)[:n_rounds] for _, group in groupby(own, key=lambda plane: plane.session)]
    long_enough = [session for session in found if len(session) == n_rounds]
    if len(long_enough) < n_sessions:
        raise InputError(
            f"--sessions {n_sessions} of --rounds {n_rounds} are more than the {len(long_enough)} so long "
            f"among the hyperplanes: make more with closecall bench planes"
        )
    return long_enough[:n_sessions]


def figures(
    sessions: Sequence[Session],
    pace: float,
    scans: Sequence[Answer],
    cpu_ms: float,
    truth: NDArray[np.float64],
) -> Row:
    """Return the results of one mode.

    ``median_ms``, ``p90_ms`` and ``p99_ms`` are the median and the 90th and 99th percentile of a selection's
    wall-clock time. ``exhaustive_ms`` is the median time of `scans`. ``ratio_to_exhaustive`` and
    ``p90_ratio_to_exhaustive`` are ``median_ms`` and ``p90_ms`` divided by ``exhaustive_ms``.

    The same columns with ``cpu_`` in the name are about processor time, which is more reliable while other
    programs run. ``scan_cpu_share`` is the processor time of `scans` divided by their wall-clock time.
    ``cpu_ms_per_round`` is `cpu_ms` per round, which includes the time for remembering.

    ``with_memory`` is the share of selections whose session remembered a hyperplane. ``memory_age_median``
    and ``memory_age_p90`` are the median and the 90th percentile of the age of this hyperplane, in rounds.
    ``late_p99_ms`` and ``late_max_ms`` are the 99th percentile and the maximum of the rounds' delays.
    ``sustained`` tells whether all delays were shorter than the time from one round to the next.

    ``recall_at_1`` is the share of selections that found the nearest item, and ``recall_at_1_low`` its
    one-sided lower 95 % bound.

    Parameters
    ----------
    sessions : sequence of Session
        Sessions that were replayed.
    pace : float
        Seconds from one round to the next.
    scans : sequence of Answer
        Exhaustive scans, timed while nothing else ran.
    cpu_ms : float
        Processor time of the process during the replay, in milliseconds.
    truth : array of shape (n_sessions, n_rounds), float64
        The smallest |wᵀx + b| of all unlabeled items, for each hyperplane.
    """
    rounds = [played for session in sessions for played in session.rounds]
    late_ms = np.array([played.late_ms for played in rounds])
    ages = [played.age for played in rounds if played.age is not None]
    margins = np.array([[played.margin for played in session.rounds] for session in sessions])
    found = int(np.count_nonzero(margins <= truth))
    return {
        "sessions": len(sessions),
        "rounds": len(rounds) // len(sessions),
        "pace_seconds": pace,
        **_times("", [played.ms for played in rounds], [scan.ms for scan in scans]),
        **_times("cpu_", [played.cpu_ms for played in rounds], [scan.cpu_ms for scan in scans]),
        "scan_cpu_share": sum(scan.cpu_ms for scan in scans) / sum(scan.ms for scan in scans),
        "cpu_ms_per_round": cpu_ms / len(rounds),
        "with_memory": len(ages) / len(rounds),
        "memory_age_median": float(np.median(ages)) if ages else None,
        "memory_age_p90": float(np.percentile(ages, 90)) if ages else None,
        "late_p99_ms": float(np.percentile(late_ms, 99)),
        "late_max_ms": float(late_ms.max()),
        "sustained": bool(late_ms.max() < 1000 * pace),
        "recall_at_1": found / len(rounds),
        "recall_at_1_low": recall_low(found, len(rounds)),
    }


def _times(kind: str, selections_ms: Sequence[float], scans_ms: Sequence[float]) -> Row:
    median, p90, p99 = np.percentile(selections_ms, [50, 90, 99]).tolist()
    scan = float(np.median(scans_ms))
    return {
        f"{kind}median_ms": median,
        f"{kind}p90_ms": p90,
        f"{kind}p99_ms": p99,
        f"{kind}exhaustive_ms": scan,
        f"{kind}ratio_to_exhaustive": median / scan,
        f"p90_{kind}ratio_to_exhaustive": p90 / scan,
    }


def _warm_up(asked: StrategyContender, planes: Sequence[Plane]) -> None:
    """Compile kernels, and map the pool and the index into this process."""
    for plane in planes[:3]:
        memory, _ = asked.remember(plane.hyperplane)
        asked.answer(plane, None)
        asked.answer(plane, memory)


def _time_scans(scan: Contender, chosen: Sequence[Sequence[Plane]]) -> list[Answer]:
    planes = [plane for session in chosen for plane in session]
    some = np.linspace(0, len(planes) - 1, SCANS).astype(int).tolist()
    return [scan.answer(planes[place], None) for place in some]


def _least_margins(pool: Pool, chosen: Sequence[Sequence[Plane]]) -> NDArray[np.float64]:
    """Return the smallest |wᵀx + b| of the unlabeled items for each hyperplane.

    The shape is (n_sessions, n_rounds).
    """
    exhaustive = make_strategy("exhaustive").fit(pool)
    requests = [Request(plane.hyperplane, exclude=plane.labeled) for own in chosen for plane in own]
    margins: list[float] = []
    with click.progressbar(length=len(requests), label="Looking for the nearest", show_pos=True) as bar:
        for first in range(0, len(requests), AT_ONCE):
            found = exhaustive.select_many(requests[first : first + AT_ONCE])
            margins += [float(one.margins[0]) for one in found if one]
            bar.update(len(found))
    return np.reshape(margins, (len(chosen), -1))
