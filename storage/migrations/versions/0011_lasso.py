"""Let `selections.why` also be "lasso", for selections among the items in a lasso on the map."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Connection, text

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

WHYS = (
    "'strategy', 'random-start', 'example', 'undo', 'audit', 'skipped-again', 'search', 'overlap', "
    "'similar', 'words', 'description'"
)
BEFORE = f"why IN ({WHYS})"
AFTER = f"why IN ({WHYS}, 'lasso')"


def upgrade() -> None:
    """Allow one more word in the constraint on `selections.why`."""
    connection = op.get_bind()
    if connection.dialect.name == "sqlite":
        _make_again(connection)
    else:
        op.drop_constraint(op.f("ck_selections_why"), "selections", type_="check")
        op.create_check_constraint(op.f("ck_selections_why"), "selections", AFTER)


def _make_again(connection: Connection) -> None:
    """Rebuild the table with its rows, indexes and triggers, because SQLite can't change a constraint.

    The table is never renamed, because SQLite would also rename it in tables and views that refer to it.
    """
    made = "SELECT sql FROM sqlite_master WHERE tbl_name = 'selections' AND sql IS NOT NULL"
    table = connection.execute(text(f"{made} AND type = 'table'")).scalar_one()
    others = connection.execute(text(f"{made} AND type IN ('index', 'trigger')")).scalars().all()
    if table.count(BEFORE) != 1:
        raise RuntimeError("the table selections has no such constraint as an earlier migration gave it")
    op.execute("CREATE TEMPORARY TABLE kept AS SELECT * FROM selections")
    op.execute("DROP TABLE selections")
    connection.exec_driver_sql(table.replace(BEFORE, AFTER))
    op.execute("INSERT INTO selections SELECT * FROM kept ORDER BY seq")
    op.execute("DROP TABLE kept")
    for statement in others:
        connection.exec_driver_sql(statement)
