"""Index an archive by the chunk route."""

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from holdfast.history.chunks.item_stream import StateMismatch, scan
from holdfast.history.chunks.items import CONTENT_2, ItemParser, content_names
from holdfast.history.chunks.state import ChunkTable, SeriesState
from holdfast.history.entry import ITEM
from holdfast.history.errors import GarbledItems, IndexDamaged
from holdfast.history.excludes import Excludes
from holdfast.history.ingest import Ingest, IngestResult, Progress
from holdfast.history.store import Store

ROUTE = "chunks"


class ChunkSource(Protocol):
    """The engine's side: the metadata chunks of an archive and their content."""

    @property
    def major(self) -> int: ...
    @property
    def latest_nanoseconds(self) -> int: ...
    def chunk_ids(self, archive: str) -> list[bytes]: ...
    def chunks(self, ids: Sequence[bytes]) -> Generator[bytes]: ...
    def segments(self, joined_ids: bytes) -> bytes: ...
    def stored_sizes(self, joined_ids: bytes) -> bytes: ...


def ingest_chunks(
    store: Store,
    archive: str,
    source: ChunkSource,
    series: str,
    base: str | None,
    excludes: Excludes,
    progress: Progress | None,
) -> IngestResult:
    ids = source.chunk_ids(archive)
    state, doubt, carried_from = _carried(store, series, excludes)

    def read(known: SeriesState) -> IngestResult:
        parser = _parser(store, source)
        ingest = Ingest(store, archive, ITEM, parser.parse, excludes, progress)
        ingest.compare_with(base or carried_from)
        result = scan(ids, known.table, source.chunks, ingest.accept)
        versions = result.assemble(known.versions, ingest.versions())
        if source.major == 1:
            ingest.chunks.locate(source.segments)
        else:  # its packs have no numbers, and its items do not give the stored size
            ingest.chunks.note_stored(source.stored_sizes)
        now = SeriesState(result.table, versions, excludes.fingerprint)
        return ingest.finish(ROUTE, versions, series, now.dump())

    if state is not None:
        try:
            return read(state)
        except (StateMismatch, GarbledItems) as mismatch:
            doubt = str(mismatch)  # if the archive itself is garbled, reading all of it will show that
    nothing = SeriesState(ChunkTable.empty(), np.zeros(0, np.uint32), excludes.fingerprint)
    return replace(read(nothing), fallback=doubt)


def _parser(store: Store, source: ChunkSource) -> ItemParser:
    """Return a parser for this engine's items that identifies contents as the index does.

    The first time, an index is marked as one of engine 2.
    """
    with store.read() as snapshot:
        meta = snapshot.meta()
    if source.major == 2 and CONTENT_2 not in meta:
        with store.write() as transaction:
            transaction.set_meta(CONTENT_2, b"1")
    return ItemParser(content_names(meta, source.major), source.latest_nanoseconds, source.major)


def _carried(store: Store, series: str, excludes: Excludes) -> tuple[SeriesState | None, str | None, str | None]:
    """Return the state stored for the series, or the reason why it cannot be used, and the archive it describes."""
    with store.read() as snapshot:
        carried = snapshot.state(series)
        archives = {row.id: row.engine_id for row in snapshot.archives()}
    if carried is None:
        return None, None, None
    number, data = carried
    try:
        state = SeriesState.load(data)
    except IndexDamaged as damage:
        return None, str(damage), None
    if state.excludes != excludes.fingerprint:
        return None, "other patterns are excluded now", None
    return state, None, archives.get(number)
