"""Features of examples under a project's later descriptions (ways of computing features)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table `example_features`."""
    op.create_table(
        "example_features",
        sa.Column("example_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("description", sa.String(200), nullable=False),
        sa.Column("feature", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(["example_id"], ["examples.id"], name=op.f("fk_example_features_example_id")),
        sa.PrimaryKeyConstraint("example_id", "description", name=op.f("pk_example_features")),
    )
