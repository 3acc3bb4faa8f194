"""Everything that a selection depends on, except the labels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from closecall.app.engine.exclusion import excluded_from_search, excluded_items
from closecall.app.engine.selection_parameters import RULE
from closecall.core.audit import is_audit_turn
from closecall.core.pool.pool import Pool
from closecall.core.selection import QueryStrategy
from closecall.storage import ConceptRecord, Standing

if TYPE_CHECKING:
    from closecall.app.engine.audit import Audit, Framed
    from closecall.app.engine.leases import Others
    from closecall.app.engine.strategy_memory import Remembered

ROUNDS_APART = 1_000_003
"""Factor of the session's seed in the seed of a round; see `Occasion.seed`.

If sessions have fewer rounds than this, two sessions with different seeds never have a round with the same
seed.
"""


@dataclass(frozen=True, eq=False)
class Occasion:
    """The conditions of a selection, without the labels.

    Parameters
    ----------
    session_id : str
    concept : ConceptRecord
    pool : Pool
    strategy : QueryStrategy
        Fitted to the pool.
    others : Others
        Leases of other sessions, read before the labels.
    include_skipped : bool
        Whether skipped items may be chosen again.
    session_seed : int
    round : int
        Number of the round that begins with the selection.
    remembered : Remembered or None
        The session's memory of an earlier hyperplane, if any.
    audit : Audit
        The concept's audit.
    audit_share : float
        Share of the rounds that draw an item for the audit, 0 … 1.
    passed : tuple of int
        Audited items that were passed over, ascending; see `app.engine.audit.Audit.passed`.
    persons : int
        Number of annotators that each item needs. It is 1 unless the round selects items that other
        annotators have answered.
    description : str
        Name of the description that gives the pool's features; "" is the project's first description.
    is_hurried : bool
        Whether time is short, so that the strategy's thrifty form selects the items; see
        `core.selection.QueryStrategy.thrifty`.
    """

    session_id: str
    concept: ConceptRecord
    pool: Pool
    strategy: QueryStrategy
    others: Others
    include_skipped: bool
    session_seed: int
    round: int
    remembered: Remembered | None
    audit: Audit
    audit_share: float
    passed: tuple[int, ...]
    persons: int
    description: str = ""
    is_hurried: bool = False

    @property
    def leased(self) -> tuple[int, ...]:
        """Return the items that can't be selected because they are leased to other sessions, ascending."""
        return self.others.items

    def excluded(self, standing: Standing) -> NDArray[np.int64]:
        """Return the items that may not be selected, ascending."""
        return excluded_items(
            standing, self.leased, include_skipped=self.include_skipped, passed=self.passed, rule=RULE
        )

    def taken(self, standing: Standing) -> NDArray[np.int64]:
        """Return the items that a search may show but the annotator can't answer, ascending."""
        include_skipped, passed = self.include_skipped, self.passed
        return excluded_from_search(standing, self.leased, include_skipped=include_skipped, passed=passed)

    def sharing_own(self) -> Occasion:
        """Return an occasion on which the leases of the person's other sessions don't matter.

        Return this occasion if the person's other sessions have no leases.
        """
        others = self.others.sharing_own()
        return self if set(others.items).issuperset(self.leased) else replace(self, others=others)

    def frame(self) -> Framed | None:
        """Return the audit's sampling frame if this round draws an item for the audit, otherwise None."""
        if not is_audit_turn(self.round, self.audit_share, seed=self.session_seed):
            return None
        return self.audit.frame(self.pool)

    @property
    def seed(self) -> int:
        """Return the seed of the round, which depends on the session's seed and the number of the round."""
        return self.session_seed * ROUNDS_APART + self.round
