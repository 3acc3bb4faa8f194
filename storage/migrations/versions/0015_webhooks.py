"""Webhooks, and the happenings (events other than answers) that they report."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables `happenings` and `webhooks`."""
    key = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "happenings",
        sa.Column("seq", key, nullable=False),
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("key", sa.String(200), nullable=False),
        sa.Column("concept_id", key, nullable=True),
        sa.Column("after", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("kind IN ('pool-complete', 'advice-to-stop')", name=op.f("ck_happenings_kind")),
        sa.ForeignKeyConstraint(["concept_id"], ["concepts.id"], name=op.f("fk_happenings_concept_id")),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_happenings")),
        sa.UniqueConstraint("id", name=op.f("uq_happenings_id")),
        sa.UniqueConstraint("kind", "key", name=op.f("uq_happenings_kind_key")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "webhooks",
        sa.Column("id", key, nullable=False),
        sa.Column("url", sa.String(2000), nullable=False),
        sa.Column("secret", sa.String(200), nullable=False),
        sa.Column("kinds", sa.JSON(), nullable=False),
        sa.Column("concept_id", key, nullable=True),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(200), nullable=False),
        sa.Column("answers_through", sa.BigInteger(), nullable=False),
        sa.Column("happenings_through", sa.BigInteger(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("last_problem", sa.Text(), nullable=True),
        sa.Column("last_success", sa.BigInteger(), nullable=True),
        sa.Column("is_paused", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["concept_id"], ["concepts.id"], name=op.f("fk_webhooks_concept_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhooks")),
        sqlite_autoincrement=True,
    )
