"""Request and response schemas of databases. Passwords are never shown."""

from typing import Annotated, Literal

from pydantic import Field

from holdfast.kit.fields import PlainText, Timestamp
from holdfast.kit.schema import Closed, Schema

DatabaseKind = Literal["postgresql", "postgresql_globals", "mysql", "sqlite"]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,59}$")]
Text = Annotated[str, PlainText(1, 1024)]
TEMPLATE = "{repository}-databases-{now}"


class DumpParams(Closed):
    """Parameters of an operation that dumps databases."""

    archive_name: str = TEMPLATE
    upload_ratelimit_kib: int | None = None


class DatabaseBody(Closed):
    name: Name = Field(description="Unique within the repository; also names its file in the archive.")
    kind: DatabaseKind = Field(
        description="`postgresql_globals`: the roles and tablespaces of a server. `mysql` includes MariaDB."
    )
    database: Text | None = Field(None, description="Name of the database, or absolute path of an SQLite file.")
    host: Text | None = Field(None, description="Host name, or absolute path of the socket (PostgreSQL: its folder).")
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    user: Text | None = None
    password: Annotated[str, PlainText(1, 1024)] | None = Field(None, description="Stored encrypted, never shown.")


class DatabaseAnswer(Schema):
    id: int
    repository_id: int
    name: str
    kind: DatabaseKind
    database: str | None
    host: str | None
    port: int | None
    user: str | None
    has_password: bool
    file: str = Field(description="Path of its dump in an archive of the series `<repository>-databases`.")
    restore_command: str = Field(description="Command that loads the dump after it has been restored to a folder.")
    created_at: Timestamp
    updated_at: Timestamp


class Databases(Schema):
    databases: list[DatabaseAnswer]
