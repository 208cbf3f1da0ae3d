"""Field types of client requests."""

from datetime import UTC, datetime
from typing import Annotated, Any

from annotated_types import Ge, Le
from pydantic import AfterValidator, GetCoreSchemaHandler, PlainSerializer, WithJsonSchema
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from backup_engine.frozen import frozen
from holdfast.kit.clock import with_offset

LARGEST_IDENTIFIER = 2**63 - 1


@frozen
class PlainText:
    """Text that every store can hold: ``Annotated[str, PlainText(1, 64)]``.

    JSON can contain a NUL, which PostgreSQL rejects, and half of a surrogate pair, which has no UTF-8 form.
    """

    min_length: int = 0
    max_length: int = 4096
    max_bytes: int | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        del source, handler
        text = core_schema.str_schema(min_length=self.min_length, max_length=self.max_length)
        return core_schema.no_info_after_validator_function(self._storable, text)

    def _storable(self, value: str) -> str:
        if "\0" in value:
            raise PydanticCustomError("plain_text", "Text may not hold a NUL character.")
        try:
            size = len(value.encode())
        except UnicodeEncodeError as error:
            raise PydanticCustomError("plain_text", "Text may not hold a lone surrogate.") from error
        if self.max_bytes is not None and size > self.max_bytes:
            raise PydanticCustomError(
                "plain_text", "Text may have at most {max_bytes} bytes.", {"max_bytes": self.max_bytes}
            )
        return value


def _as_utc(value: datetime) -> datetime:
    """Treat a time without offset as UTC. Times at the ends of the calendar may have no UTC form."""
    try:
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except OverflowError as error:
        raise PydanticCustomError("moment", "The time is outside the calendar.") from error


# A time sent by a client.
Moment = Annotated[datetime, AfterValidator(_as_utc)]
# A time in an answer, with its offset spelled out as the API contract requires; Pydantic would write "Z".
Timestamp = Annotated[
    datetime,
    PlainSerializer(with_offset, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "format": "date-time"}, mode="serialization"),
]
# Larger ids overflow the column; an unknown id within these limits is simply not found.
RowId = Annotated[int, Ge(-LARGEST_IDENTIFIER), Le(LARGEST_IDENTIFIER)]
PageLimit = Annotated[int, Ge(1), Le(500)]
"""Maximum number of list entries in one answer."""
