"""Which hyperplanes are asked about, and what each one's session may remember."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import numpy as np

from closecall.core.errors import InputError
from closecall.core.experiment.corpus import Corpus
from closecall.core.experiment.planes import Plane, one_vs_all
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.pool.pool import Pool

RUN = 10
"""Of a session, so many rounds are played one after the other at least."""

Round = tuple[Plane, Hyperplane | None]
"""A hyperplane, and the one of the round before in its session."""


def planes_for(
    pool: Pool, corpus: Path | None, settings: Sequence[str], queries: int, seed: int
) -> list[Plane]:
    """The hyperplanes that a comparison is about.

    Parameters
    ----------
    pool : Pool
        They were trained on it.
    corpus : Path or None
        File of a `Corpus`; None for `queries` new ones in the paper's setting.
    settings : sequence of str
        Only those settings; where there is none of that name, those whose name contains it. None for all.
    queries, seed : int
        How many new ones, and what draws their labels.

    Raises
    ------
    InputError
        If there is no such setting, or no such corpus, or nothing to train on.
    """
    if corpus is None:
        found = Corpus(one_vs_all(pool, queries, seed=seed), pool.digest)
    else:
        found = Corpus.load(corpus, pool)
    wanted = list(found.settings)
    if settings:
        chosen = [[s for s in wanted if s == text] or [s for s in wanted if text in s] for text in settings]
        for text, some in zip(settings, chosen, strict=True):
            if not some:
                raise InputError(
                    f"--setting must be, or be part of, one of {'; '.join(wanted)}; got {text!r}"
                )
        wanted = list(dict.fromkeys(setting for some in chosen for setting in some))
    return [plane for setting in wanted for plane in found.of(setting)]


def rounds_of(planes: Sequence[Plane], n: int) -> list[Round]:
    """At most `n` of a setting's planes, which are in the order of sessions and rounds.

    Single ones are the first. Of sessions they are runs of consecutive rounds, from as many sessions as that
    gives `RUN` rounds each; the first session's run is its beginning, the last one's is its end.
    """
    sessions = [list(group) for _, group in groupby(planes, key=lambda plane: plane.session)]
    if planes[0].session < 0:
        return [(plane, None) for plane in planes[:n]]
    run = min(max(RUN, -(-n // len(sessions))), max(map(len, sessions)))
    used = np.unique(np.linspace(0, len(sessions) - 1, min(len(sessions), -(-n // run))).astype(int))
    rounds: list[Round] = []
    for place, session in enumerate(sessions[i] for i in used):
        start = round(max(0, len(session) - run) * place / max(1, len(used) - 1))
        for t in range(start, min(start + run, len(session))):
            rounds.append((session[t], session[t - 1].hyperplane if t else None))
    return rounds[:n]
