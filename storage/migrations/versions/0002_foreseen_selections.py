"""Foreseen selections, which the browser gets in advance, one for each possible answer."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table `foreseen`."""
    op.create_table(
        "foreseen",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("session_id", sa.String(64), nullable=False),
        sa.Column("selection", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name=op.f("fk_foreseen_session_id")),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_foreseen")),
        sa.UniqueConstraint("id", name=op.f("uq_foreseen_id")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_foreseen_session_id_seq"), "foreseen", ["session_id", "seq"])
