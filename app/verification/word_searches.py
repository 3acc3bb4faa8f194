"""Repeat the logged searches by words. The log has the vector (direction) of each text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from closecall.app.engine.directions import Direction
from closecall.app.engine.selection_parameters import DIRECTION, WORDS
from closecall.app.sessions.word_search import MOST, nearest
from closecall.app.verification.report import named
from closecall.core.errors import InputError

if TYPE_CHECKING:
    from closecall.app.verification.replay import Replay
    from closecall.core.pool.pool import Pool
    from closecall.core.similar import Neighbours


def search_again(replays: Sequence[Replay], then: Pool) -> Iterator[str]:
    """Yield one sentence for each item that the search no longer finds, or that was not eligible.

    Parameters
    ----------
    replays : sequence of Replay
        Selections of searches by words.
    then : Pool
        The snapshot that was searched.
    """
    last: tuple[bytes, Neighbours] | None = None
    for replay in replays:
        round_ = replay.record.round
        try:
            direction = Direction.of(replay.record.parameters[DIRECTION])
            vector = direction.vector.tobytes()
            if last is None or last[0] != vector:
                last = vector, nearest(then, direction.vector)
        except KeyError:
            yield f"Round {round_}: the log lacks the direction of the words that were searched for"
            continue
        except InputError as error:
            yield f"Round {round_}: the search by words can't be repeated: {error}"
            continue
        found = last[1].ids
        for record in replay.records:
            place = record.parameters[WORDS]["place"]
            there = found[place : place + 1].tolist() if 0 <= place < MOST else []
            if there != [record.item]:
                yield (
                    f"Round {round_}: the search by words finds {named('item', there)} at place {place}, "
                    f"the log has {named('item', [record.item])}"
                )
            if record.item in replay.exclude:
                yield (
                    f"Round {round_}: item {record.item} was found by words, but had an answer or was in "
                    f"another session's view"
                )
