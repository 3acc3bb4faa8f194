"""Archived concepts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table `archivals`."""
    op.create_table(
        "archivals",
        sa.Column("concept_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["concept_id"], ["concepts.id"], name=op.f("fk_archivals_concept_id")),
        sa.PrimaryKeyConstraint("concept_id", name=op.f("pk_archivals")),
    )
