"""Column types with the same meaning on SQLite and PostgreSQL."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Any

from sqlalchemy import ARRAY, JSON, BigInteger, DateTime, Dialect, ForeignKey, Integer, String
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import mapped_column
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.operators import OperatorType
from sqlalchemy.types import TypeDecorator, TypeEngine

TEXT_LENGTH = len("2026-11-16 02:00:00.000000")
Identifier = BigInteger().with_variant(Integer, "sqlite")
RowUuid = Annotated[str, mapped_column(String(32), unique=True)]
RepositoryKey = Annotated[
    int,
    mapped_column(Identifier, ForeignKey("repositories.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
]
"""A part of the primary key of tables about repositories; their rows are deleted with the repository."""


class Json(TypeDecorator[Any]):
    """JSON; on PostgreSQL in its binary form. Code that only PostgreSQL needs is loaded only there."""

    impl = JSON
    cache_ok = True

    def __init__(self) -> None:
        super().__init__(none_as_null=True)

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name != "postgresql":
            return dialect.type_descriptor(self.impl_instance)
        from sqlalchemy.dialects.postgresql import JSONB

        return dialect.type_descriptor(JSONB(none_as_null=True))

    def coerce_compared_value(self, op: OperatorType | None, value: Any) -> TypeEngine[Any]:
        return self.impl_instance.coerce_compared_value(op, value)


JsonValue = Json()


class SharedJson(Json):
    """JSON read as text, for readers of many rows that change nothing: equal texts become one object."""

    cache_ok = True

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any] | None:
        del dialect, coltype
        return _shared


class IdList(TypeDecorator[Any]):
    """Ids as a single PostgreSQL value, written as text so that the driver does not process each of them."""

    impl = ARRAY(BigInteger)
    cache_ok = True

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], str]:
        del dialect
        return lambda ids: f"{{{','.join(map(str, ids))}}}"


class stored_text(FunctionElement[Any]):  # noqa: N801 - named as functions are
    """A JSON column as text; otherwise the driver of PostgreSQL would convert it to an object for each row."""

    type = SharedJson()
    inherit_cache = True


@compiles(stored_text)
def _as_stored(element: stored_text, compiler: Any, **options: Any) -> str:
    return str(compiler.process(element.clauses, **options))


@compiles(stored_text, "postgresql")
def _as_text(element: stored_text, compiler: Any, **options: Any) -> str:
    return f"({compiler.process(element.clauses, **options)})::text"


def _shared(text: str | None) -> Any:
    return _loaded(text) if text is not None else None


_loaded = lru_cache(maxsize=1024)(json.loads)


class UtcDateTime(TypeDecorator[datetime]):
    """An aware datetime, stored as naive UTC.

    SQLite stores text. Rows contain many times, so each is converted in a single step, to the same text as
    SQLAlchemy's.
    """

    impl = DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        del dialect
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a time without its offset cannot be stored")
        return value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: Any | None, dialect: Dialect) -> datetime | None:
        del dialect
        return value.replace(tzinfo=UTC) if value is not None else None

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], Any] | None:
        return _to_text if dialect.name == "sqlite" else super().bind_processor(dialect)

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any] | None:
        return _from_text if dialect.name == "sqlite" else super().result_processor(dialect, coltype)


def _to_text(value: datetime | None) -> str | None:
    if value is None:
        return None
    if value.tzinfo is None:
        raise ValueError("a time without its offset cannot be stored")
    return value.astimezone(UTC).isoformat(" ", "microseconds")[:TEXT_LENGTH]


def _from_text(value: str | None) -> datetime | None:
    return datetime.fromisoformat(value + "+00:00") if value is not None else None
