"""Let `selections.why` also be "predicted", for items that another model's predictions choose."""

from __future__ import annotations

from closecall.storage.migrations.checks import replace_check

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

WHYS = (
    "'strategy', 'random-start', 'example', 'undo', 'audit', 'skipped-again', 'search', 'overlap', "
    "'similar', 'words', 'description', 'lasso'"
)
BEFORE = f"why IN ({WHYS})"
AFTER = f"why IN ({WHYS}, 'predicted')"


def upgrade() -> None:
    """Allow one more word in the constraint on `selections.why`."""
    replace_check("selections", "why", BEFORE, AFTER)
