"""Selections of items found by name: `why` may be "search"."""

from __future__ import annotations

from closecall.storage.migrations.checks import replace_check

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

BEFORE = "why IN ('strategy', 'random-start', 'example', 'undo', 'audit', 'skipped-again')"
AFTER = "why IN ('strategy', 'random-start', 'example', 'undo', 'audit', 'skipped-again', 'search')"


def upgrade() -> None:
    """Allow one more word in the constraint on `selections.why`."""
    replace_check("selections", "why", BEFORE, AFTER)
