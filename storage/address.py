"""Addresses of label databases on a server: ``postgresql://user@host:port/database?schema=name``.

Each project has its own schema, named after the project, so one database can serve all projects. PostgreSQL's
client library takes passwords and certificates from its usual places, such as ``PGPASSWORD``, ``~/.pgpass``
and ``PGSERVICE``.
"""

from __future__ import annotations

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from closecall.storage.errors import StorageError

DRIVER = "postgresql+psycopg"
_DIALECTS = ("postgresql", "postgres", DRIVER)
_MAX_SCHEMA = 63  # PostgreSQL truncates longer names, in bytes

# The connection parameters that libpq's documentation lists and that hold a secret.
_SECRETS = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
FORM = "postgresql://user@host/database"


def is_address(where: str) -> bool:
    """Return whether the text is an address rather than a path."""
    return "://" in where


def parse(address: str) -> tuple[URL, str | None]:
    """Return the URL to connect to, and the schema, or None if the address names no schema.

    Raises
    ------
    StorageError
        If the address is malformed (kind `invalid`). The message does not repeat the address, which may
        contain a password.
    """
    try:
        url = make_url(address)
    except (ArgumentError, ValueError):
        raise StorageError(f"a database's address must look like {FORM}", "invalid") from None
    if url.drivername not in _DIALECTS:
        raise StorageError(
            f"a database's address must begin with postgresql://, not with {url.drivername}://", "invalid"
        )
    schema = url.query.get("schema")
    if not (schema is None or isinstance(schema, str)):
        raise StorageError("a database's address may name one schema only", "invalid")
    if schema is not None and not 0 < len(schema.encode()) <= _MAX_SCHEMA:
        raise StorageError(
            f"a schema needs a name of at most {_MAX_SCHEMA} bytes, got {schema!r:.80}", "invalid"
        )
    return url.difference_update_query(["schema"]).set(drivername=DRIVER), schema


def has_password(address: str) -> bool:
    """Return whether the address contains a password or another secret.

    Raises
    ------
    StorageError
        If the address is malformed (kind `invalid`).
    """
    return bool(secrets_of(parse(address)[0]))


def secrets_of(url: URL) -> list[str]:
    """Return the secrets in the URL."""
    found = [] if url.password is None else [str(url.password)]
    return found + [value for name in _SECRETS for value in url.normalized_query.get(name, ())]


def with_schema(address: str, name: str) -> str:
    """Return the address without its secrets. If it names no schema, add the schema `name`.

    Raises
    ------
    StorageError
        If the address is malformed (kind `invalid`).
    """
    url, schema = parse(address)
    made = shown(url, schema or name)
    parse(made)
    return made


def shown(url: URL, schema: str) -> str:
    """Return the URL and the schema as an address without secrets, for printing, logging and storing."""
    public = URL.create(
        "postgresql",
        username=url.username,
        host=url.host,
        port=url.port,
        database=url.database,
        query=url.difference_update_query(_SECRETS).query,
    )
    return public.update_query_dict({"schema": schema}).render_as_string(hide_password=False)
