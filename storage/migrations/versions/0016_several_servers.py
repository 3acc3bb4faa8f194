"""Leases and claims of sessions, which several servers of one project share."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables `session_leases`, `ended_leases` and `session_claims`."""
    op.create_table(
        "session_leases",
        sa.Column("scope", sa.String(64), nullable=False),
        sa.Column("session_id", sa.String(64), nullable=False),
        sa.Column("items", sa.JSON(), nullable=False),
        sa.Column("heard", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("scope", "session_id", name=op.f("pk_session_leases")),
    )
    op.create_table(
        "ended_leases",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("scope", sa.String(64), nullable=False),
        sa.Column("session_id", sa.String(64), nullable=False),
        sa.Column("items", sa.JSON(), nullable=False),
        sa.Column("ended", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_ended_leases")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_ended_leases_scope_seq"), "ended_leases", ["scope", "seq"])
    op.create_table(
        "session_claims",
        sa.Column("session_id", sa.String(64), nullable=False),
        sa.Column("server", sa.String(64), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("renewed", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("session_id", name=op.f("pk_session_claims")),
    )
