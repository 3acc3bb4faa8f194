"""Load or train the hyperplanes for which a benchmark selects items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np

from closecall.core.errors import InputError
from closecall.core.experiment.corpus import Corpus
from closecall.core.experiment.planes import Plane, one_vs_all
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.pool.pool import Pool

RUN = 10
"""Minimum number of consecutive rounds taken from a session."""

Round = tuple[Plane, Hyperplane | None]
"""A hyperplane, and the hyperplane of the previous round in the same session.

The second is None in the first round of a session, and for a single hyperplane.
"""


def planes_for(
    pool: Pool, corpus: Path | None, settings: Sequence[str], queries: int, seed: int
) -> list[Plane]:
    """Load or train the hyperplanes for which a benchmark selects items.

    Parameters
    ----------
    pool : Pool
        Pool that the hyperplanes are trained on.
    corpus : Path or None
        File of a `Corpus`, from which the hyperplanes are loaded. With None, they are trained as in the
        H-Hash paper.
    settings : sequence of str
        Names of the training settings whose hyperplanes are returned, or parts of such names. If empty, the
        hyperplanes of all settings are returned.
    queries, seed : int
        Number of hyperplanes to train, and seed of their labels; ignored if `corpus` is given.

    Raises
    ------
    InputError
        If there is no such setting or corpus, or no labels to train on.
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


def planes_of_other(
    other: Pool, pool: Pool, corpus: Path | None, settings: Sequence[str], queries: int, seed: int
) -> list[Plane]:
    """Return hyperplanes trained on the pool `other`, to select from `pool` (figure 4 of the H-Hash paper).

    These are the hyperplanes that `planes_for` returns for `other`, without their lists of labeled items. A
    selection from `pool` therefore excludes no items. The ids don't tell which items are in both pools, so a
    selected item may be among the items that the hyperplane was trained on.

    Raises
    ------
    InputError
        If `planes_for` raises it, or if the pools have different features.
    """
    if _features(other) != _features(pool):
        raise InputError(
            f"--planes-of must be a pool with the features of {pool.path}, {_features(pool)}; "
            f"{other.path} has {_features(other)}"
        )
    nothing = np.empty(0, dtype=np.int64)
    return [replace(plane, labeled=nothing) for plane in planes_for(other, corpus, settings, queries, seed)]


def _features(pool: Pool) -> str:
    layout = "sparse" if pool.is_sparse else "dense"
    return f"{pool.n_features:,} {layout} numbers ({pool.feature_kind})"


def rounds_of(planes: Sequence[Plane], n: int) -> list[Round]:
    """Return at most `n` of the hyperplanes of one setting.

    If they are single hyperplanes, return the first `n`. If they come from sessions, return consecutive
    rounds from as many sessions as possible, at least `RUN` from each. The rounds of the first session are
    from its beginning, and the rounds of the last session from its end. Over the sessions in between, the
    position of the rounds moves evenly from the beginning to the end.

    Parameters
    ----------
    planes : sequence of Plane
        Hyperplanes of one setting, ordered by session and round.
    n : int
        Maximum number of hyperplanes.
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
