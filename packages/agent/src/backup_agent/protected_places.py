"""Find places that the agent's jobs must not touch: the agent's own folders, repositories on this machine, and folders
of a service that runs here.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from backup_agent.places import Places
from backup_engine.own_places import OwnPlaces, is_really_within
from backup_engine.protected_places import ProtectedPlaces
from backup_protocol import BackupBlock, RestoreBlock


def own_folders(places: Places) -> tuple[str, ...]:
    return str(places.config.absolute()), str(places.state.absolute())


def guard_of(own: Iterable[str], block: RestoreBlock) -> ProtectedPlaces:
    """The places that a restore must not write to."""
    places = [os.fsencode(path) for path in (*own, *block.repositories)]
    return ProtectedPlaces(places, ((os.fsencode(path), *identity) for path, identity in _known(block.service_places)))


def exclusions_of(own: Iterable[str], block: BackupBlock) -> tuple[str, ...]:
    """Engine patterns that exclude the agent's own folders, and those of a service on this machine, from a backup."""
    return OwnPlaces([*own, *_of_service_here(block)]).exclusions(block.source_paths)


def is_own(path: str, own: Iterable[str], block: BackupBlock) -> bool:
    """Whether a path leads into the agent's own folders, or into those of a service on this machine."""
    return OwnPlaces([*own, *_of_service_here(block)]).holds(path)


def _of_service_here(block: BackupBlock) -> list[str]:
    return [path for path, identity in _known(block.service_places) if _identity(path) == identity]


def sources_outside(block: BackupBlock) -> list[str]:
    """Sources that lead through links on this machine to places outside the folders that confine the backup."""
    if not block.within:
        return []
    return [source for source in block.source_paths if not is_really_within(source, block.within)]


def _known(places: Iterable[Mapping[str, Any]]) -> list[tuple[str, tuple[int, int]]]:
    """Paths of the service, each with the device and inode reported by it. Invalid entries are dropped."""
    found = []
    for place in places:
        path, device, inode = (place.get(name) for name in ("path", "device", "inode"))
        if isinstance(path, str) and isinstance(device, int) and isinstance(inode, int):
            found.append((path, (device, inode)))
    return found


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = Path(path).stat()
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino
