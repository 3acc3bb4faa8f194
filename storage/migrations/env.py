"""Alembic's entry point: run migrations on the connection and in the transaction of `storage.migrate`."""

from __future__ import annotations

from alembic import context

from closecall.storage.models import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    transactional_ddl=True,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
