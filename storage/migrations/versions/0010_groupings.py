"""Groups of near-duplicates, to which selections refer."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table `groupings`."""
    op.create_table(
        "groupings",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint("length(digest) > 0", name=op.f("ck_groupings_digest")),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_groupings")),
    )
