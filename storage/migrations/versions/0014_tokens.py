"""A stand-in for the migration of the tokens, which has its own author."""

from __future__ import annotations

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change nothing."""
