"""Fraction of a concept's rounds that belong to its audit. Before, each session had its own fraction."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

SESSIONS = sa.table(
    "sessions",
    sa.column("concept_id", sa.Integer),
    sa.column("parameters", sa.JSON),
    sa.column("created", sa.BigInteger),
)


def upgrade() -> None:
    """Create the table `audit_shares`. Each concept gets the share of its newest session with a share."""
    made = op.create_table(
        "audit_shares",
        sa.Column("concept_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("share", sa.Float(), nullable=False),
        sa.CheckConstraint("share BETWEEN 0 AND 1", name=op.f("ck_audit_shares_share")),
        sa.ForeignKeyConstraint(["concept_id"], ["concepts.id"], name=op.f("fk_audit_shares_concept_id")),
        sa.PrimaryKeyConstraint("concept_id", name=op.f("pk_audit_shares")),
    )
    connection = op.get_bind()
    query = sa.select(SESSIONS.c.concept_id, SESSIONS.c.parameters).order_by(SESSIONS.c.created)
    shares = {
        concept: float(parameters["audit_share"])
        for concept, parameters in connection.execute(query)
        if "audit_share" in parameters
    }
    if shares:
        connection.execute(
            made.insert(), [{"concept_id": concept, "share": share} for concept, share in shares.items()]
        )
