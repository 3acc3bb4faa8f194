"""Withdrawals of descriptions in words. Labeling no longer starts with a withdrawn description."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

# INSERT OR REPLACE deletes a row without firing the DELETE trigger, so a trigger stops the INSERT.
SQLITE_TRIGGERS = (
    "CREATE TRIGGER withdrawals_never_change BEFORE UPDATE ON withdrawals "
    "BEGIN SELECT RAISE(ABORT, 'withdrawals is append-only: a row is never changed'); END",
    "CREATE TRIGGER withdrawals_never_go BEFORE DELETE ON withdrawals "
    "BEGIN SELECT RAISE(ABORT, 'withdrawals is append-only: a row is never deleted'); END",
    "CREATE TRIGGER withdrawals_never_replaced BEFORE INSERT ON withdrawals "
    "WHEN EXISTS (SELECT 1 FROM withdrawals WHERE seq = NEW.seq) "
    "BEGIN SELECT RAISE(ABORT, 'withdrawals is append-only: a row is never replaced'); END",
)
POSTGRESQL_TRIGGERS = (
    "CREATE TRIGGER withdrawals_never_change BEFORE UPDATE OR DELETE ON withdrawals "
    "FOR EACH ROW EXECUTE FUNCTION never_change()",
    "CREATE TRIGGER withdrawals_never_emptied BEFORE TRUNCATE ON withdrawals "
    "FOR EACH STATEMENT EXECUTE FUNCTION never_change()",
)


def upgrade() -> None:
    """Create the table `withdrawals`, whose rows can't be changed or deleted."""
    key = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "withdrawals",
        sa.Column("seq", key, nullable=False),
        sa.Column("concept_id", key, nullable=False),
        sa.Column("direction", sa.String(64), nullable=False),
        sa.Column("is_withdrawn", sa.Boolean(), nullable=False),
        sa.Column("annotator", sa.String(200), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("length(direction) > 0", name=op.f("ck_withdrawals_direction")),
        sa.ForeignKeyConstraint(["concept_id"], ["concepts.id"], name=op.f("fk_withdrawals_concept_id")),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_withdrawals")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_withdrawals_concept_id"), "withdrawals", ["concept_id"])
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    for trigger in SQLITE_TRIGGERS if is_sqlite else POSTGRESQL_TRIGGERS:
        op.execute(trigger)
