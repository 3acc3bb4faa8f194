"""Let `selections.why` also be "lasso", for selections among the items in a lasso on the map."""

from __future__ import annotations

from closecall.storage.migrations.checks import replace_check

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

WHYS = (
    "'strategy', 'random-start', 'example', 'undo', 'audit', 'skipped-again', 'search', 'overlap', "
    "'similar', 'words', 'description'"
)
BEFORE = f"why IN ({WHYS})"
AFTER = f"why IN ({WHYS}, 'lasso')"


def upgrade() -> None:
    """Allow one more word in the constraint on `selections.why`."""
    replace_check("selections", "why", BEFORE, AFTER)
