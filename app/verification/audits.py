"""Repeat the audit's random draws, each from the sampling frame that it was drawn from.

The cuts between the strata of a frame depend on scores in float32, whose last bits may differ between
machines. Cuts may therefore differ from the log by rounding errors. The sizes of the strata may differ by the
number of items that are this near to a cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from closecall.app.engine.audit import FrameThen, Place, place_of_frame
from closecall.app.engine.selection_parameters import AUDIT
from closecall.core.audit import Frame, Strata
from closecall.core.selection.nearest import float32_error

if TYPE_CHECKING:
    from closecall.app.verification.replay import Replay
    from closecall.core.pool.pool import Pool


def draw_again(replays: Sequence[Replay], then: Pool, frames: Mapping[Place, FrameThen]) -> Iterator[str]:
    """Repeat the draws. Yield a sentence for each frame and for each draw that differs now.

    Parameters
    ----------
    replays : sequence of Replay
        Selections that the audit drew, each with the parameters of its frame.
    then : Pool
        The snapshot from which the items were drawn.
    frames : mapping of Place to FrameThen
        The data that the frames were made from.
    """
    replays = sorted(replays, key=lambda replay: place_of_frame(replay.record))
    for place, of_frame in groupby(replays, key=lambda replay: place_of_frame(replay.record)):
        made, own = frames[place], list(of_frame)
        claimed = own[0].record.parameters[AUDIT]
        frame = Frame(
            then,
            made.hyperplane,
            exclude=made.answered,
            seed=claimed["seed"],
            rule=claimed.get("rule", 1),
        )
        digest = made.hyperplane.digest if made.hyperplane else None
        difference = difference_of(frame.strata, claimed, then)
        if claimed["digest"] != digest or difference is None:
            yield (f"Round {own[0].record.round}: the labels give other strata than those that the log has")
        for replay in own:
            record = replay.record
            drawn = frame.draw(exclude=replay.exclude, seed=record.seed)
            assert drawn.probability is not None
            is_as_likely = record.probability is not None and np.isclose(
                drawn.probability, record.probability, rtol=difference or 0.0, atol=0.0
            )
            if int(drawn.ids[0]) != record.item or not is_as_likely:
                yield (
                    f"Round {record.round}: the audit draws item {drawn.ids[0]} with probability "
                    f"{drawn.probability:.4g}, the log has item {record.item} and {record.probability}"
                )


def difference_of(strata: Strata, claimed: Mapping[str, Any], then: Pool) -> float | None:
    """Return a bound on the relative difference between the probabilities of draws from both strata.

    It is 0 if the strata equal the logged strata, `claimed`. Return None if the strata differ by more than
    rounding errors explain.
    """
    logged = {name: claimed.get(name) for name in ("cuts", "sizes", "last")}
    if logged == strata.params():
        return 0.0
    cuts, sizes, plane = np.array(logged["cuts"]), np.array(logged["sizes"]), strata.hyperplane
    if (
        plane is None
        or logged["last"] != strata.last
        or (cuts.shape, sizes.shape)
        != (
            strata.cuts.shape,
            strata.sizes.shape,
        )
    ):
        return None
    error = 4 * float32_error(plane)
    if not np.allclose(cuts, strata.cuts, rtol=0.0, atol=error):
        return None
    moved = np.abs(sizes - strata.sizes)
    if not moved.any():
        return 0.0
    scores = then.alone().scores(plane)
    near = sum(int(np.count_nonzero(np.abs(scores - cut) <= error)) for cut in strata.cuts)
    return None if moved.sum() > 2 * near else 2 * float(moved.max() / strata.sizes[strata.sizes > 0].min())
