"""Nothing outside the destination ever changes, whatever the archive and the destination contain."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.real.restore.archives import Workshop, below, private_folders
from tests.support.trees import look_at


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "file").write_text("must stay")
    (folder / "folder").mkdir(mode=0o751)
    return folder


@pytest.mark.parametrize(
    "overwrite", ["replace", *(pytest.param(word, marks=pytest.mark.campaign) for word in ("skip", "fail"))]
)
def test_a_restore_does_not_write_through_a_link_at_the_destination(
    newest: Workshop, tmp_path: Path, outside: Path, overwrite: str
) -> None:
    source, destination = tmp_path / "source", tmp_path / "destination"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "file").write_text("archived")
    (source / "other").write_text("archived")
    archive = newest.back_up(source)
    below(destination, source).mkdir(parents=True)
    (below(destination, source) / "sub").symlink_to(outside)
    before = look_at(outside)

    ended = newest.restore(archive, destination, overwrite=overwrite)

    assert look_at(outside) == before
    assert (below(destination, source) / "sub").readlink() == outside
    assert ended["status"] == ("completed" if overwrite == "skip" else "failed"), ended
    assert (below(destination, source) / "other").exists() is (overwrite != "fail")
    if overwrite == "replace":
        assert ended["error_key"] == "restore.incomplete"
        assert ended["result"]["failed"][0]["path"] == f"{str(source)[1:]}/sub"
        assert (ended["result"]["files_restored"], ended["result"]["files_failed"]) == (1, 1)


@pytest.mark.campaign
def test_a_link_restored_from_one_archive_is_not_followed_by_the_next_restore(
    newest: Workshop, tmp_path: Path, outside: Path
) -> None:
    source, destination = tmp_path / "source", tmp_path / "destination"
    source.mkdir()
    (source / "name").symlink_to(outside)
    with_link = newest.back_up(source)
    (source / "name").unlink()
    (source / "name").mkdir()
    (source / "name" / "file").write_text("archived")
    with_folder = newest.back_up(source, repository=with_link.repository)
    before = look_at(outside)

    newest.restore(with_link, destination)
    ended = newest.restore(with_folder, destination, overwrite="replace")

    assert look_at(outside) == before
    assert (below(destination, source) / "name").is_symlink()
    assert ended["status"] == "failed"
    assert ended["error_key"] == "restore.incomplete"


def test_files_that_an_archive_has_below_a_link_do_not_pass_through_it(
    workshop: Workshop, tmp_path: Path, outside: Path
) -> None:
    """The engine itself creates such archives, and its older version writes through the link when it extracts them."""
    source, destination = tmp_path / "source", tmp_path / "destination"
    source.mkdir()
    (source / "plain").write_text("plain")
    (source / "link").symlink_to(outside)
    archive = workshop.back_up_with_engine(source, "plain", "link", "link/file", "link/folder")
    (outside / "file").unlink()
    (outside / "folder").chmod(0o700)
    before = look_at(outside)

    ended = workshop.restore(archive, destination)

    assert look_at(outside) == before
    assert ended["status"] == "failed"
    assert ended["error_key"] == "restore.incomplete"
    assert [(item["path"], item["reason"]) for item in ended["result"]["failed"]] == [
        ("link", "the archive holds files below this symbolic link")
    ]
    assert (destination / "plain").read_text() == "plain"
    assert (destination / "link" / "file").read_text() == "must stay"
    assert not (destination / "link").is_symlink()


def test_a_destination_that_becomes_a_link_while_the_restore_waits_is_refused(
    newest: Workshop, tmp_path: Path, outside: Path
) -> None:
    source, destination = tmp_path / "source", tmp_path / "destination"
    source.mkdir()
    (source / "file").write_text("archived")
    repository = newest.running.new_repository(source_paths=[source])
    archive = newest.back_up(source, repository=repository)
    before = look_at(outside)

    with newest.running.held_backup(repository):
        job_id = newest.start(archive, destination)
        destination.symlink_to(outside)
    ended = newest.running.admin.wait_for_end(job_id)

    assert ended["status"] == "failed"
    assert ended["error_key"] == "restore.destination_is_link"
    assert look_at(outside) == before


def test_a_restore_never_leaves_a_destination_where_links_come_and_go(
    newest: Workshop, tmp_path: Path, outside: Path
) -> None:
    """A user who owns a folder at the destination turns it into a link and back, as fast as possible."""
    source, destination = tmp_path / "source", tmp_path / "destination"
    (source / "sub").mkdir(parents=True)
    for number in range(200):
        (source / "sub" / f"file-{number}").write_text("archived")
    archive = newest.back_up(source)
    place = below(destination, source)
    place.mkdir(parents=True)
    before = look_at(outside)

    with swapping(place / "sub", outside):
        ended = newest.restore(archive, destination, overwrite="replace")

    assert look_at(outside) == before
    assert ended["status"] in ("completed", "failed")
    assert private_folders(destination) == []


@contextmanager
def swapping(path: Path, target: Path) -> Iterator[None]:
    """During the block, let the path alternate between a link, a folder and nothing."""
    stop = threading.Event()
    steps = (
        lambda: path.symlink_to(target),
        path.unlink,
        path.mkdir,
        lambda: path.rename(path.with_name("moved away")),
    )

    def swap() -> None:
        while not stop.is_set():
            for step in steps:
                with suppress(OSError):
                    step()

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        yield
    finally:
        stop.set()
        swapper.join()
