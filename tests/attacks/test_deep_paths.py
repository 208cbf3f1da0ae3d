"""A path of very many folders, as an archive can contain it, is checked like any other."""

import os
from pathlib import Path

from backup_engine.protected_places import ProtectedPlaces, ProtectedTargets

DEEP = b"d/" * 2000


def test_targets_below_very_many_folders_are_checked(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    targets = ProtectedTargets(ProtectedPlaces([os.fsencode(place)]), os.fsencode(tmp_path))

    assert not targets.is_own(DEEP + b"x", is_directory=False)
    assert targets.is_own(b"place/" + DEEP + b"x", is_directory=False)
