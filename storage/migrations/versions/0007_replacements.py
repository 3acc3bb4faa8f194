"""Concepts that have replaced other concepts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table `replacements`."""
    key = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "replacements",
        sa.Column("concept_id", key, nullable=False),
        sa.Column("place", key, nullable=False),
        sa.ForeignKeyConstraint(["concept_id"], ["concepts.id"], name=op.f("fk_replacements_concept_id")),
        sa.ForeignKeyConstraint(["place"], ["concepts.id"], name=op.f("fk_replacements_place")),
        sa.PrimaryKeyConstraint("concept_id", name=op.f("pk_replacements")),
    )
