"""Whole trees, restored by each engine: byte for byte, and name for name."""

import base64
import os
from pathlib import Path

import pytest

from tests.real.restore.archives import Workshop, below, private_folders, same_tree
from tests.support.trees import FIFO, MEBIBYTE, NOT_UTF8, blocks_of, look_at, make_difficult_tree, make_many_files


def test_a_difficult_tree_is_restored_byte_for_byte(workshop: Workshop, tmp_path: Path) -> None:
    (source, archive), destination = workshop.difficult, tmp_path / "destination"

    ended = workshop.restore(archive, destination)

    assert ended["status"] == "completed_with_warnings", ended
    same_tree(below(destination, source), source, FIFO)
    assert [item["path"] for item in ended["result"]["special"]] == [str(source / os.fsdecode(FIFO))[1:]]
    assert ended["warnings"] == [
        {"path": f"{str(source)[1:]}/fifo", "message": f"{str(source)[1:]}/fifo: a FIFO or device is not restored"}
    ]
    assert ended["result"]["files_restored"] == sum(
        1 for path, seen in look_at(source).items() if path != FIFO and seen.type != 0o040000
    )
    assert blocks_of(below(destination, source) / "sparse.img") < 20 * MEBIBYTE
    assert private_folders(destination) == []


@pytest.mark.campaign
def test_ten_thousand_files_are_restored_unchanged(newest: Workshop, tmp_path: Path) -> None:
    source, destination = tmp_path / "source", tmp_path / "destination"
    source.mkdir()
    make_many_files(source, 10_000)

    ended = newest.restore(newest.back_up(source), destination)

    assert ended["status"] == "completed", ended["error_message"]
    assert ended["result"]["files_restored"] == 10_000
    same_tree(below(destination, source), source)


@pytest.mark.campaign
def test_a_second_restore_over_the_first_changes_nothing(workshop: Workshop, tmp_path: Path) -> None:
    (source, archive), destination = workshop.difficult, tmp_path / "destination"
    workshop.restore(archive, destination)

    for overwrite, counted in (("skip", "files_skipped"), ("replace", "files_restored")):
        ended = workshop.restore(archive, destination, overwrite=overwrite)

        assert ended["status"] == "completed_with_warnings", ended
        assert ended["result"][counted] > 30
        same_tree(below(destination, source), source, FIFO)


def test_a_single_file_with_a_name_that_is_not_valid_utf_8_is_restored(workshop: Workshop, tmp_path: Path) -> None:
    (source, archive), destination = workshop.difficult, tmp_path / "destination"
    path = {"path_b64": base64.b64encode(os.fsencode(source) + b"/" + NOT_UTF8).decode()}

    ended = workshop.restore(archive, destination, paths=[path], restore_layout="contents_only")

    assert ended["status"] == "completed", ended
    found, wanted = look_at(destination), look_at(source)
    assert found.keys() == {b"", NOT_UTF8}
    assert found[NOT_UTF8] == wanted[NOT_UTF8]


def test_the_contents_of_a_folder_are_restored_directly_into_the_destination(
    workshop: Workshop, tmp_path: Path
) -> None:
    (source, archive), destination = workshop.difficult, tmp_path / "destination"
    paths = [str(source / "links"), str(source / "plain.txt"), str(source / "empty folder")]

    ended = workshop.restore(archive, destination, paths=paths, restore_layout="contents_only")

    assert ended["status"] == "completed", ended
    assert sorted(path.name for path in destination.iterdir()) == sorted(
        [*(path.name for path in (source / "links").iterdir()), "plain.txt", "empty below"]
    )
    assert (destination / "first").stat().st_ino == (destination / "second").stat().st_ino


def test_a_hard_link_is_restored_with_its_content_even_without_its_other_names(
    workshop: Workshop, tmp_path: Path
) -> None:
    (source, archive), destination = workshop.difficult, tmp_path / "destination"

    names = ("links/first", "links/second", "third")
    jobs = {
        name: workshop.start(archive, destination / name, paths=[str(source / name)], restore_layout="contents_only")
        for name in names
    }

    for name, job_id in jobs.items():
        ended = workshop.running.admin.wait_for_end(job_id)
        assert ended["status"] == "completed", ended
        assert [path.read_text() for path in (destination / name).iterdir()] == ["one file, three names\n"]


def test_a_restore_to_the_original_location_replaces_changed_and_deleted_files(
    newest: Workshop, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    make_difficult_tree(source)
    archive = newest.back_up(source)
    before = look_at(source)
    (source / "plain.txt").unlink()
    (source / "modes" / "file-0644").write_text("changed")
    (source / "added").write_text("added later")

    ended = newest.restore(archive, Path("/"), paths=[str(source)], overwrite="replace")

    after = look_at(source)
    assert ended["status"] == "completed_with_warnings", ended
    assert after[b"plain.txt"] == before[b"plain.txt"]
    assert after[b"modes/file-0644"] == before[b"modes/file-0644"]
    assert after[b"modes"] == before[b"modes"]
    assert b"added" in after
    assert private_folders(tmp_path) == []


@pytest.mark.campaign
def test_parent_folders_of_restored_files_keep_their_modes(newest: Workshop, tmp_path: Path) -> None:
    """The archive does not contain them; the engine creates them on the way, for its user alone."""
    source, destination = tmp_path / "source", tmp_path / "destination"
    source.mkdir()
    (source / "file").write_text("file")
    archive = newest.back_up(source)
    above = below(destination, tmp_path)
    above.mkdir(parents=True)
    above.chmod(0o755)
    above.parent.chmod(0o755)

    ended = newest.restore(archive, destination, overwrite="replace")

    assert ended["status"] == "completed", ended
    assert (above.stat().st_mode & 0o777, above.parent.stat().st_mode & 0o777) == (0o755, 0o755)
    assert (above / "source" / "file").read_text() == "file"


@pytest.mark.campaign
def test_an_encrypted_repository_is_restored_like_a_plain_one(newest: Workshop, tmp_path: Path) -> None:
    source, destination = tmp_path / "source", tmp_path / "destination"
    source.mkdir()
    (source / "file").write_text("secret")
    path = newest.running.folder / newest.running.new_name("repository")
    repository = newest.running.admin.create_repository(path, [source], index_mode="off")

    ended = newest.restore(newest.back_up(source, repository=repository), destination)

    assert ended["status"] == "completed", ended
    assert (below(destination, source) / "file").read_text() == "secret"
