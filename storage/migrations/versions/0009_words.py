"""Let `selections.why` also be "words" or "description", for selections by a description in words."""

from __future__ import annotations

from closecall.storage.migrations.checks import replace_check

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

WHYS = (
    "'strategy', 'random-start', 'example', 'undo', 'audit', 'skipped-again', 'search', 'overlap', 'similar'"
)
BEFORE = f"why IN ({WHYS})"
AFTER = f"why IN ({WHYS}, 'words', 'description')"


def upgrade() -> None:
    """Allow two more words in the constraint on `selections.why`."""
    replace_check("selections", "why", BEFORE, AFTER)
