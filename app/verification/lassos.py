"""Repeat the logged selections in lassos, each with the logged corners and layout of the map."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from closecall.app.engine.lasso import Lasso, select_among
from closecall.app.engine.selection_parameters import GROUP_RULE, LASSO, POLYGON
from closecall.app.verification.report import named
from closecall.core.errors import InputError
from closecall.storage.ascending import without

if TYPE_CHECKING:
    from closecall.app.verification.replay import Replay
    from closecall.core.pool.pool import Pool


def select_again(replays: Sequence[Replay], pool: Pool, then: Pool) -> Iterator[str]:
    """Repeat the selections. Yield a sentence for each selection that differs now or can't be repeated.

    Parameters
    ----------
    replays : sequence of Replay
        Selections in lassos.
    pool : Pool
        The newest snapshot of the pool.
    then : Pool
        The snapshot from which the items were selected.
    """
    last: tuple[Lasso, NDArray[np.int64]] | None = None
    for replay in replays:
        record = replay.record
        try:
            lasso = Lasso.of(record.parameters[POLYGON])
            if last is None or last[0] != lasso:
                last = lasso, lasso.items(pool)
            left, n = without(last[1], replay.exclude), record.parameters[LASSO]["n"]
            groups, rule = replay.standing.groups, record.parameters.get(GROUP_RULE, 1)
            found = select_among(then, left, replay.trained, n, groups, rule=rule).ids.tolist()
        except KeyError:
            yield f"Round {record.round}: the log lacks the lasso that the items were in"
            continue
        except InputError as error:
            yield f"Round {record.round}: the selection in a lasso can't be repeated: {error}"
            continue
        logged = {other.parameters[LASSO]["place"]: other.item for other in replay.records}
        if logged != dict(enumerate(found)):
            yield (
                f"Round {record.round}: the lasso has {named('item', found)}, "
                f"the log has {named('item', list(logged.values()))}"
            )
