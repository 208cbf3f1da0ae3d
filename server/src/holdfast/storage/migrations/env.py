"""The entry point for Alembic, always with a connection opened by the caller."""

from typing import Any, Literal

from alembic import context
from alembic.autogenerate.api import AutogenContext
from sqlalchemy import False_, TypeDecorator

from holdfast.storage import types
from holdfast.storage.base import Base


def render_item(kind: str, item: Any, autogen: AutogenContext) -> str | Literal[False]:
    """Render this project's column types by name, and a boolean default in a form that every store reads."""
    if kind == "server_default" and isinstance(getattr(item, "arg", None), False_):
        return "sa.false()"
    if kind != "type":
        return False
    name = {id(types.JsonValue): "JsonValue", id(types.Identifier): "Identifier"}.get(id(item))
    if isinstance(item, types.UtcDateTime):
        name = "UtcDateTime()"
    elif name is None and isinstance(item, TypeDecorator):
        return f"sa.{item.impl_instance!r}"  # what the database sees; a domain may change what it makes of it
    if name is None:
        return False
    autogen.imports.add("from holdfast.storage import types")
    return f"types.{name}"


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    render_as_batch=True,
    compare_type=True,
    render_item=render_item,
    transaction_per_migration=False,
)
context.run_migrations()
