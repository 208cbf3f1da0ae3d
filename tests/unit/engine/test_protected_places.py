import os
from pathlib import Path

import pytest

from backup_engine.protected_places import ABOVE, OWN, ProtectedPlaces, ProtectedTargets, steps


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "srv" / "data"
    folder.mkdir(parents=True)
    return folder


def guard_of(*places: Path | str) -> ProtectedPlaces:
    return ProtectedPlaces(os.fsencode(place) for place in places)


def test_a_place_holds_itself_and_everything_in_it(data: Path, tmp_path: Path) -> None:
    guard = guard_of(data)
    (tmp_path / "link").symlink_to(data)

    for path in (data, data / "new" / "deep", tmp_path / "link", tmp_path / "link" / "new"):
        assert guard.holds(os.fsencode(path)), path
    for path in (data.parent, Path(f"{data}x"), Path("/"), tmp_path / "missing"):
        assert not guard.holds(os.fsencode(path)), path


def test_a_place_that_does_not_exist_is_recognised_by_its_name(tmp_path: Path) -> None:
    guard = guard_of(tmp_path / "disk" / "repository")

    assert guard.holds(os.fsencode(tmp_path / "disk" / "repository" / "config"))
    assert guard.names_at(os.fsencode(tmp_path)) == {b"disk": ABOVE}
    assert guard.names_at(os.fsencode(tmp_path / "disk")) == {b"repository": OWN}


def test_a_link_on_the_path_to_a_place_counts_as_above_it(data: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("srv")
    guard = guard_of(tmp_path / "link" / "data")

    assert guard.names_at(os.fsencode(tmp_path)) == {b"link": ABOVE, b"srv": ABOVE}
    assert guard.names_at(os.fsencode(data.parent)) == {b"data": OWN}


def test_a_folder_is_recognised_by_its_identity_whatever_its_name(data: Path) -> None:
    guard = guard_of(data)
    data.rename(data.with_name("moved"))
    descriptor = os.open(data.with_name("moved"), os.O_RDONLY)
    try:
        assert guard.is_own(descriptor)
        assert guard.names_in(descriptor, b"/elsewhere") == {}
    finally:
        os.close(descriptor)
    above = os.open(data.parent, os.O_RDONLY)
    try:
        assert guard.names_in(above, b"/elsewhere") == {b"data": OWN}
    finally:
        os.close(above)


def test_targets_are_resolved_relative_to_the_destination(data: Path, tmp_path: Path) -> None:
    targets = ProtectedTargets(guard_of(data, tmp_path / "srv" / "key"), os.fsencode(tmp_path))

    own = [b"srv/data", b"srv/data/file", b"srv/data/deep/file", b"srv/key"]
    free = [b"srv", b"srv/other", b"srv/datax", b"srv/keys/file", b"file"]
    assert [target for target in own if not targets.is_own(target, is_directory=False)] == []
    assert [target for target in free if targets.is_own(target, is_directory=True)] == []


def test_targets_are_checked_even_if_the_destination_is_the_root(data: Path) -> None:
    targets = ProtectedTargets(guard_of(data), b"/")

    assert targets.is_own(os.fsencode(data).lstrip(b"/") + b"/file", is_directory=False)
    assert not targets.is_own(os.fsencode(data.parent).lstrip(b"/"), is_directory=True)


def test_without_places_no_target_is_protected(tmp_path: Path) -> None:
    assert ProtectedPlaces().is_empty
    assert not ProtectedTargets(ProtectedPlaces(), os.fsencode(tmp_path)).is_own(b"file", is_directory=False)
    assert not ProtectedPlaces().holds(os.fsencode(tmp_path))


def test_steps_end_even_if_links_form_a_loop(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")

    assert len(list(steps(os.fsencode(tmp_path / "one" / "data")))) <= 1000
