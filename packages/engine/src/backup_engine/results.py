"""Parse an engine's results on standard output. A result either parses completely or is rejected."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from backup_engine import bounded_json, json_values
from backup_engine.frozen import frozen


class GarbledOutput(Exception):
    """The engine's result is cut short or malformed; no part of it can be trusted."""

    key = "engine.failed"


@frozen
class ArchiveStats:
    """Sizes in bytes; None if this engine reports none."""

    original_size: int
    compressed_size: int | None
    deduplicated_size: int | None
    nfiles: int


@frozen
class RepositoryTotals:
    """Sizes of a whole repository. ``unique_size`` is the size of its data on disk: compressed and deduplicated."""

    total_size: int
    total_compressed_size: int
    unique_size: int
    unique_original_size: int
    total_chunks: int
    unique_chunks: int


@frozen
class CreateResult:
    archive_name: str
    archive_id: str
    start: datetime
    end: datetime
    duration: float
    stats: ArchiveStats
    repository_totals: RepositoryTotals | None
    repository_id: str | None = None


@frozen
class ArchiveInfo:
    """An archive in a listing; ``start`` and ``end`` are in UTC. ``is_bare``: the listing contained only names."""

    name: str
    id: str
    start: datetime
    end: datetime | None
    comment: str
    hostname: str | None
    username: str | None
    is_bare: bool = False


@frozen
class ArchiveDetails:
    """An archive in the output of ``info``."""

    name: str
    id: str
    start: datetime
    end: datetime
    duration: float
    comment: str
    hostname: str | None
    username: str | None
    stats: ArchiveStats


@frozen
class InfoResult:
    """``archives`` is empty if the request was for the repository as a whole."""

    repository_id: str
    location: str
    last_modified: datetime | None
    encryption: str | None
    repository_totals: RepositoryTotals | None
    archives: tuple[ArchiveDetails, ...]


def parse_create_result(raw: bytes) -> CreateResult:
    """Parse the standard output of ``create``. Raise GarbledOutput if it is incomplete."""
    document = _Document.read(raw)
    archive = document.within("archive")
    return CreateResult(
        archive_name=archive.text("name"),
        archive_id=archive.text("id"),
        start=archive.moment("start"),
        end=archive.moment("end"),
        duration=archive.number("duration"),
        stats=_stats(archive.within("stats")),
        repository_totals=_totals(document),
        repository_id=document.optional("repository").optional_text("id"),
    )


def parse_archives(raw: bytes) -> list[ArchiveInfo]:
    """Parse all archives in the standard output of a repository's ``list``, or raise GarbledOutput.

    An archive's own metadata may be anything; only its name, id and start must be valid.
    """
    return [
        ArchiveInfo(
            name=archive.text("name"),
            id=archive.text("id"),
            start=archive.moment("start"),
            end=archive.moment_if_any("end"),
            comment=archive.text_if_any("comment") or "",
            hostname=archive.text_if_any("hostname"),
            username=archive.text_if_any("username"),
            is_bare="comment" not in archive.content,
        )
        for archive in _Document.read(raw).many("archives")
    ]


def parse_info(raw: bytes) -> InfoResult:
    """Parse the standard output of ``info``, or raise GarbledOutput."""
    document = _Document.read(raw)
    return _info(document, tuple(_details(archive) for archive in document.optional_many("archives")))


def parse_repository(raw: bytes) -> InfoResult:
    """Parse only the part about the repository in the standard output of ``info`` or ``list``, or raise
    GarbledOutput.
    """
    return _info(_Document.read(raw), ())


def _info(document: "_Document", archives: tuple[ArchiveDetails, ...]) -> InfoResult:
    repository = document.within("repository")
    return InfoResult(
        repository_id=repository.text("id"),
        location=repository.text("location"),
        last_modified=repository.optional_moment("last_modified"),
        encryption=_encryption(document.optional("encryption")),
        repository_totals=_totals(document),
        archives=archives,
    )


def _encryption(document: "_Document") -> str | None:
    """The product's name of the encryption mode.

    Major 2 reports the cipher, the hash of chunk ids, and the key file if there is one.
    """
    mode, cipher = document.optional_text("mode"), document.optional_text("encryption")
    if cipher is None:
        return mode
    if cipher.startswith("none-"):
        return "none"
    where = "keyfile-" if document.optional_text("keyfile") else ""
    named = "-blake3" if document.optional_text("id_hash") == "blake3" and not cipher.endswith("-blake3") else ""
    return f"{where}{cipher}{named}"


def _details(archive: "_Document") -> ArchiveDetails:
    return ArchiveDetails(
        name=archive.text("name"),
        id=archive.text("id"),
        start=archive.moment("start"),
        end=archive.moment("end"),
        duration=archive.number("duration"),
        comment=archive.optional_text("comment") or "",
        hostname=archive.optional_text("hostname"),
        username=archive.optional_text("username"),
        stats=_stats(archive.within("stats")),
    )


def _stats(stats: "_Document") -> ArchiveStats:
    return ArchiveStats(
        original_size=stats.size("original_size"),
        compressed_size=stats.optional_size("compressed_size"),
        deduplicated_size=stats.optional_size("deduplicated_size"),
        nfiles=stats.size("nfiles"),
    )


def _totals(document: "_Document") -> RepositoryTotals | None:
    stats = document.optional("cache").optional("stats")
    if stats.is_empty:
        return None
    return RepositoryTotals(
        total_size=stats.size("total_size"),
        total_compressed_size=stats.size("total_csize"),
        unique_size=stats.size("unique_csize"),
        unique_original_size=stats.size("unique_size"),
        total_chunks=stats.size("total_chunks"),
        unique_chunks=stats.size("total_unique_chunks"),
    )


@frozen
class _Document:
    """A JSON object that raises GarbledOutput, naming the place, if a value is missing or invalid."""

    content: Mapping[str, Any]
    place: str = "the result"

    @classmethod
    def read(cls, raw: bytes) -> "_Document":
        try:
            content = bounded_json.document(raw)
        except bounded_json.TooManyValues as error:
            raise GarbledOutput("The engine's result is too large to be read.") from error
        except ValueError as error:
            raise GarbledOutput("The engine's result is not complete JSON.") from error
        if not isinstance(content, dict):
            raise GarbledOutput("The engine's result is not a JSON object.")
        return cls(content)

    @property
    def is_empty(self) -> bool:
        return not self.content

    def within(self, key: str) -> "_Document":
        value = self.content.get(key)
        if not isinstance(value, dict):
            raise self._garbled(key)
        return _Document(value, key)

    def optional(self, key: str) -> "_Document":
        return self.within(key) if self.content.get(key) is not None else _Document({}, key)

    def many(self, key: str) -> list["_Document"]:
        value = self.content.get(key)
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self._garbled(key)
        return [_Document(item, key) for item in value]

    def optional_many(self, key: str) -> list["_Document"]:
        return self.many(key) if self.content.get(key) is not None else []

    def text(self, key: str) -> str:
        value = json_values.text(self.content.get(key))
        if not value:
            raise self._garbled(key)
        return value

    def optional_text(self, key: str) -> str | None:
        value = self.content.get(key)
        if value is not None and not isinstance(value, str):
            raise self._garbled(key)
        return json_values.text_or_none(value)

    def text_if_any(self, key: str) -> str | None:
        return json_values.text_or_none(self.content.get(key))

    def moment_if_any(self, key: str) -> datetime | None:
        try:
            return self.optional_moment(key)
        except GarbledOutput:
            return None

    def size(self, key: str) -> int:
        value = json_values.integer(self.content.get(key))
        if value is None:
            raise self._garbled(key)
        return value

    def optional_size(self, key: str) -> int | None:
        return None if self.content.get(key) is None else self.size(key)

    def number(self, key: str) -> float:
        value = json_values.number(self.content.get(key))
        if value is None:
            raise self._garbled(key)
        return value

    def moment(self, key: str) -> datetime:
        """Parse a time. Times without a zone are in UTC, because every run has TZ=UTC."""
        try:
            moment = datetime.fromisoformat(self.text(key))
            return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        except (ValueError, OverflowError) as error:
            raise self._garbled(key) from error

    def optional_moment(self, key: str) -> datetime | None:
        return None if self.content.get(key) is None else self.moment(key)

    def _garbled(self, key: str) -> GarbledOutput:
        return GarbledOutput(f"The engine's result has no valid {key!r} in {self.place}.")
