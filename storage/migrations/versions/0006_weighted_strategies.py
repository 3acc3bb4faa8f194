"""New names for earlier hashing strategies: h-hash becomes h-hash-weighted, and so on.

The earlier strategies were the weighted forms. From this version on, h-hash, eh-hash, bh-hash and lbh-hash
are the methods as published.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from alembic import op
from sqlalchemy import Connection, text

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

FORMER = ("h-hash", "eh-hash", "bh-hash", "lbh-hash")

FORESEEN = sa.table("foreseen", sa.column("seq", sa.Integer), sa.column("selection", sa.JSON))


def upgrade() -> None:
    """Rename the strategies in sessions, selections and foreseen selections."""
    connection = op.get_bind()
    # A session stores the name of its strategy, followed by a colon and parameters if there are any.
    changed = text(
        "UPDATE sessions SET strategy = :weighted || substr(strategy, :length + 1) "
        "WHERE strategy = :former OR strategy LIKE :with_params"
    )
    for former in FORMER:
        names = {"former": former, "weighted": f"{former}-weighted"}
        connection.execute(changed, {**names, "length": len(former), "with_params": f"{former}:%"})
    with _changeable(connection):
        for former in FORMER:
            connection.execute(
                text("UPDATE selections SET strategy = :weighted WHERE strategy = :former"),
                {"former": former, "weighted": f"{former}-weighted"},
            )
    for seq, selection in connection.execute(sa.select(FORESEEN.c.seq, FORESEEN.c.selection)).all():
        if selection.get("strategy") in FORMER:
            renamed = {**selection, "strategy": f"{selection['strategy']}-weighted"}
            connection.execute(FORESEEN.update().where(FORESEEN.c.seq == seq).values(selection=renamed))


@contextmanager
def _changeable(connection: Connection) -> Iterator[None]:
    """Allow changes to rows of `selections` within the context."""
    trigger = "selections_never_change"
    if connection.dialect.name == "sqlite":
        made = "SELECT sql FROM sqlite_master WHERE type = 'trigger' AND name = :name"
        sql = connection.execute(text(made), {"name": trigger}).scalar_one()
        op.execute(f"DROP TRIGGER {trigger}")
        yield
        connection.exec_driver_sql(sql)
    else:
        op.execute(f"ALTER TABLE selections DISABLE TRIGGER {trigger}")
        yield
        op.execute(f"ALTER TABLE selections ENABLE TRIGGER {trigger}")
