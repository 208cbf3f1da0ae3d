"""Listing, comparing and extracting files of archives."""

from collections.abc import Callable

from engine_world import WORLD, Run, World, damage_data, execute

from backup_engine.requests import (
    DiffRequest,
    ExportTarRequest,
    ExtractRequest,
    KeyExportRequest,
    ListFilesRequest,
)


def extract(world: World) -> Run:
    world.with_archive()
    target = WORLD / "target"
    target.mkdir()
    request = ExtractRequest("first", (f"{world.source}/documents",), destination=str(target), list_files=True)
    return execute(world.engine.extract(world.location, request))


def extract_nothing_matched(world: World) -> Run:
    world.with_archive()
    target = WORLD / "target"
    target.mkdir()
    request = ExtractRequest("first", ("not/there",), destination=str(target))
    return execute(world.engine.extract(world.location, request))


def extract_damaged(world: World) -> Run:
    world.with_archive()
    damage_data(world.repository)
    target = WORLD / "target"
    target.mkdir()
    return execute(world.engine.extract(world.location, ExtractRequest("first", destination=str(target))))


def extract_to_stdout(world: World) -> Run:
    world.with_archive()
    request = ExtractRequest("first", (f"{world.source}/documents/letter.txt",), stdout=True)
    return execute(world.engine.extract(world.location, request))


def export_tar(world: World) -> Run:
    world.with_archive()
    request = ExportTarRequest("first", (f"{world.source}/documents",))
    return execute(world.engine.export_tar(world.location, request))


def list_files(world: World) -> Run:
    world.with_archive()
    return execute(world.engine.list_files(world.location, ListFilesRequest("first", excludes=("*.bin",))))


def diff(world: World) -> Run:
    world.with_daily_archives()
    return execute(world.engine.diff(world.location, DiffRequest("day-1", "day-2")))


def key_export(world: World) -> Run:
    world.with_archive()
    return execute(world.engine.key_export(world.location, KeyExportRequest()))


CASES: tuple[Callable[[World], Run], ...] = (
    extract,
    extract_nothing_matched,
    extract_damaged,
    extract_to_stdout,
    export_tar,
    list_files,
    diff,
    key_export,
)
