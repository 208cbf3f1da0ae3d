"""Listing, removing and checking archives."""

from collections.abc import Callable

from engine_world import Run, World, damage_data, execute, succeed

from backup_engine.requests import (
    CheckRequest,
    CompactRequest,
    DeleteArchiveRequest,
    InfoRequest,
    ListArchivesRequest,
    PruneRequest,
    RetentionPolicy,
    UndeleteArchiveRequest,
)
from backup_engine.results import parse_archives

PRUNING = RetentionPolicy(keep_last=1, keep_daily=2)


def list_archives(world: World) -> Run:
    world.with_daily_archives()
    return execute(world.engine.list_archives(world.location, ListArchivesRequest()))


def list_last_archive(world: World) -> Run:
    world.with_daily_archives()
    return execute(world.engine.list_archives(world.location, ListArchivesRequest(last=1)))


def list_empty(world: World) -> Run:
    world.init()
    return execute(world.engine.list_archives(world.location, ListArchivesRequest()))


def info_repository(world: World) -> Run:
    world.with_archive()
    return execute(world.engine.info(world.location, InfoRequest()))


def info_archive(world: World) -> Run:
    world.with_archive()
    return execute(world.engine.info(world.location, InfoRequest("first")))


def info_archive_missing(world: World) -> Run:
    world.with_archive()
    return execute(world.engine.info(world.location, InfoRequest("other")))


def delete_archive(world: World) -> Run:
    world.with_archive()
    return execute(world.engine.delete_archive(world.location, DeleteArchiveRequest("first")))


def delete_archive_missing(world: World) -> Run:
    world.with_archive()
    return execute(world.engine.delete_archive(world.location, DeleteArchiveRequest("other")))


def undelete_archive(world: World) -> Run:
    world.with_archive()
    archive = parse_archives(succeed(world.engine.list_archives(world.location, ListArchivesRequest())).stdout)[0]
    succeed(world.engine.delete_archive(world.location, DeleteArchiveRequest("first")))
    request = UndeleteArchiveRequest(world.engine.address(archive.name, archive.id))
    return execute(world.engine.undelete_archive(world.location, request))


def list_deleted_archives(world: World) -> Run:
    world.with_archive()
    succeed(world.engine.delete_archive(world.location, DeleteArchiveRequest("first")))
    return execute(world.engine.list_archives(world.location, ListArchivesRequest(deleted=True)))


def info_archive_ambiguous(world: World) -> Run:
    world.with_archive()
    succeed(world.create_command("first"))
    return execute(world.engine.info(world.location, InfoRequest("first")))


def prune_dry_run(world: World) -> Run:
    world.with_daily_archives()
    return execute(world.engine.prune(world.location, PruneRequest(PRUNING, dry_run=True)))


def prune(world: World) -> Run:
    world.with_daily_archives()
    return execute(world.engine.prune(world.location, PruneRequest(PRUNING, glob="day-*")))


def compact(world: World) -> Run:
    world.with_daily_archives()
    succeed(world.engine.prune(world.location, PruneRequest(RetentionPolicy(keep_last=1))))
    return execute(world.engine.compact(world.location, CompactRequest(threshold=0)))


def check(world: World) -> Run:
    world.with_archive()
    return execute(world.engine.check(world.location, CheckRequest()))


def check_partial(world: World) -> Run:
    world.with_archive()
    return execute(world.engine.check(world.location, CheckRequest(max_duration=60)))


def check_damaged(world: World) -> Run:
    world.with_archive()
    damage_data(world.repository)
    return execute(world.engine.check(world.location, CheckRequest(verify_data=True)))


def check_repair(world: World) -> Run:
    world.with_archive()
    damage_data(world.repository)
    return execute(world.engine.check(world.location, CheckRequest(repair=True)))


CASES: tuple[Callable[[World], Run], ...] = (
    list_archives,
    list_last_archive,
    list_empty,
    info_repository,
    info_archive,
    info_archive_missing,
    delete_archive,
    delete_archive_missing,
    prune_dry_run,
    prune,
    compact,
    check,
    check_partial,
    check_damaged,
    check_repair,
    undelete_archive,
    list_deleted_archives,
    info_archive_ambiguous,
)
