"""Times on SQLite: stored as SQLAlchemy writes them, so that stores of earlier releases are read and compared alike."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from sqlalchemy.dialects import sqlite

from holdfast.storage.types import UtcDateTime

DIALECT = sqlite.dialect()
PLAIN = sqlite.DATETIME().bind_processor(DIALECT)
WRITE, READ = UtcDateTime().bind_processor(DIALECT), UtcDateTime().result_processor(DIALECT, None)


@pytest.mark.parametrize(
    "time",
    [
        datetime(2026, 11, 16, 2, 0, tzinfo=UTC),
        datetime(2026, 11, 16, 2, 0, 0, 7, tzinfo=UTC),
        datetime(2026, 11, 16, 1, 30, tzinfo=timezone(timedelta(hours=5, minutes=30))),
        datetime(1, 1, 1, tzinfo=UTC),
    ],
)
def test_a_time_is_written_as_sqlalchemy_does_and_read_back(time: datetime) -> None:
    assert WRITE is not None
    assert READ is not None
    assert PLAIN is not None
    assert WRITE(time) == PLAIN(time.astimezone(UTC).replace(tzinfo=None))
    assert READ(WRITE(time)) == time
    assert READ(WRITE(time)).tzinfo is UTC
    assert WRITE(None) is None
    assert READ(None) is None


def test_a_time_without_an_offset_is_refused() -> None:
    assert WRITE is not None
    with pytest.raises(ValueError, match="offset"):
        WRITE(datetime(2026, 11, 16))  # noqa: DTZ001 - that is the point
