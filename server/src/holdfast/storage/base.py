"""The base of all tables."""

from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import MetaData, Text
from sqlalchemy.orm import DeclarativeBase

from holdfast.storage.types import JsonValue, UtcDateTime


class Base(DeclarativeBase):
    """The types of columns follow from their annotations, except where a column says more."""

    type_annotation_map: ClassVar[dict[Any, Any]] = {
        str: Text,
        datetime: UtcDateTime,
        dict[str, Any]: JsonValue,
        list[str]: JsonValue,
        list[dict[str, Any]]: JsonValue,
    }
    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
