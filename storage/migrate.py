"""Versions of the database schema: detect the version of a database, and upgrade the database."""

from __future__ import annotations

import threading
from pathlib import Path

from sqlalchemy import Connection, inspect, text

from closecall.storage.errors import StorageError

# Number of the newest migration. Numbers only grow, so a higher number comes from a newer program.
SCHEMA_VERSION = "0017"
SCRIPTS = Path(__file__).parent / "migrations"

# Alembic keeps the running migration in module globals, so only one migration may run at a time.
_alembic = threading.Lock()


def version_of(connection: Connection) -> str | None:
    """Return the schema version recorded in the database.

    None means that there are no tables. "" means that there are tables without a version, which therefore
    belong to another program.
    """
    tables = inspect(connection).get_table_names()
    if not tables:
        return None
    if "alembic_version" not in tables:
        return ""
    return str(connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none() or "")


def upgrade(connection: Connection, version: str = "head") -> None:
    """Upgrade the database to the newest schema, or to `version`, in the open transaction.

    Raises
    ------
    StorageError
        If the database records a version that never existed (kind `corrupt`).
    """
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    config.set_main_option("path_separator", "newline")
    try:
        with _alembic:
            command.upgrade(config, version)
    except CommandError as error:
        found = " ".join(str(error).split())[:200]
        raise StorageError(f"the schema of the labels is of no known version: {found}", "corrupt") from None
