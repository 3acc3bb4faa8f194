"""Replacement of check constraints, for several migrations."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Connection, text


def replace_check(table: str, column: str, before: str, after: str) -> None:
    """Replace the condition of the constraint ``ck_TABLE_COLUMN``.

    On SQLite, the table must have a column `seq`, which gives the order of its rows.
    """
    connection = op.get_bind()
    if connection.dialect.name == "sqlite":
        _rebuild(connection, table, before, after)
    else:
        op.drop_constraint(op.f(f"ck_{table}_{column}"), table, type_="check")
        op.create_check_constraint(op.f(f"ck_{table}_{column}"), table, after)


def _rebuild(connection: Connection, name: str, before: str, after: str) -> None:
    """Rebuild the table with its rows, indexes and triggers, because SQLite can't change a constraint.

    The table is never renamed, because SQLite would also rename it in tables and views that refer to it.
    """
    made = f"SELECT sql FROM sqlite_master WHERE tbl_name = '{name}' AND sql IS NOT NULL"
    table = connection.execute(text(f"{made} AND type = 'table'")).scalar_one()
    others = connection.execute(text(f"{made} AND type IN ('index', 'trigger')")).scalars().all()
    if table.count(before) != 1:
        raise RuntimeError(f"the table {name} has no such constraint as an earlier migration gave it")
    op.execute(f"CREATE TEMPORARY TABLE kept AS SELECT * FROM {name}")
    op.execute(f"DROP TABLE {name}")
    connection.exec_driver_sql(table.replace(before, after))
    op.execute(f"INSERT INTO {name} SELECT * FROM kept ORDER BY seq")
    op.execute("DROP TABLE kept")
    for statement in others:
        connection.exec_driver_sql(statement)
