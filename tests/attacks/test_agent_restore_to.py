"""A compromised service cannot make an agent write where its machine does not allow it."""

import io
import json
import os
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from backup_agent.places import Places
from backup_agent.restore_to import SYSTEM, NotAllowedThere, Place, RestoreTo, own_places
from backup_jobs.endings import Completed, Ended, Failed
from backup_protocol.frames import DATA, END, SURVEY, frame
from tests.support.agent_job import run_restore
from tests.support.engines import ENGINES
from tests.support.warm_engines import warm_program

ENGINE = warm_program(ENGINES[max(ENGINES)])
FILE = "holdfast-attack-on-an-agent"
"""A name that no machine has: without the rule a file of this name would be written."""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("backed-up")
    (folder / "etc").mkdir()
    (folder / "etc" / FILE).write_text("evil")
    (folder / "plain").write_text("plain")
    environment = {"BORG_BASE_DIR": str(folder / "base"), "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes"}
    for arguments in (["init", "-e", "none", "repository"], ["create", "repository::made", "etc", "plain"]):
        subprocess.run([ENGINE, *arguments], cwd=folder, env=environment, check=True)
    return folder / "repository"


def extract(folder: Path, repository: Path, destination: Path | str, rule: RestoreTo, **more: object) -> Ended:
    return run_restore(
        folder, repository, "made", Path(destination), program=ENGINE, machine={"restore_to": rule}, **more
    )


def receive(folder: Path, destination: Path | str, rule: RestoreTo, *, listed: bool = True) -> Ended:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as tar:
        for name in (f"etc/{FILE}", "plain"):
            entry = tarfile.TarInfo(name)
            entry.size = 5
            tar.addfile(entry, io.BytesIO(b"12345"))
    items = [{"path": name, "type": "-", "size": 5} for name in (f"etc/{FILE}", "plain")] if listed else []
    stream = frame(SURVEY, json.dumps({"files": 2, "size": 10, "listed": items}).encode())
    stream += frame(DATA, written.getvalue()) + frame(END, b'{"status": "completed"}')
    return run_restore(
        folder, folder, "made", Path(destination), program=ENGINE, stream=stream, machine={"restore_to": rule}
    )


def assert_refused(ended: Ended) -> None:
    assert isinstance(ended, Failed), ended
    assert ended.error_key == "restore.not_allowed_there"
    assert "Nothing was written" in ended.message


@pytest.mark.parametrize("folder", ["/etc", "/etc/cron.d", "/usr/local/bin", "/boot", "/root/.ssh", "/bin", "/proc/1"])
def test_by_default_restores_to_system_folders_are_refused(folder: str) -> None:
    with pytest.raises(NotAllowedThere, match="restore_to"):
        RestoreTo().require(os.fsencode(folder))


@pytest.mark.parametrize("folder", ["/", "/home/anna", "/srv", "/etcetera", "/var/lib/postgresql", "/rootless"])
def test_by_default_restores_to_other_folders_are_allowed(folder: str) -> None:
    RestoreTo().require(os.fsencode(folder))


def test_an_agent_refuses_a_restore_to_etc_and_writes_nothing(tmp_path: Path, repository: Path) -> None:
    place = Path("/etc") / FILE

    assert_refused(extract(tmp_path, repository, place, RestoreTo()))
    assert_refused(receive(tmp_path / "second", place, RestoreTo()))
    assert not place.exists()


def test_an_agent_refuses_a_restore_of_etc_below_the_root_folder(tmp_path: Path, repository: Path) -> None:
    """The destination is allowed; a path below it is not."""
    before = sorted(os.listdir("/"))

    assert_refused(extract(tmp_path, repository, "/", RestoreTo()))
    assert_refused(extract(tmp_path / "2", repository, "/", RestoreTo(), dry_run=True))
    assert_refused(receive(tmp_path / "3", "/", RestoreTo()))
    assert sorted(os.listdir("/")) == before


def test_files_the_service_did_not_announce_are_refused_before_they_are_placed(tmp_path: Path) -> None:
    """A stream may contain more than its list: the excess is in the private folder, which is removed."""
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    rule = RestoreTo()
    rule._system = RestoreTo([str(root / "etc")])._allowed or []  # the same rule for a folder that a test may write to

    assert_refused(receive(tmp_path, root, rule, listed=False))

    assert sorted(path.name for path in root.rglob("*")) == ["etc"]


def test_a_forbidden_folder_mounted_elsewhere_is_recognised_by_its_inode(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    rule = RestoreTo()
    rule._system = [replace(Place.of(root / "etc"), names=frozenset({b"/another/name"}))]

    with pytest.raises(NotAllowedThere):
        rule.require(bytes(root / "etc" / "below"))
    assert_refused(receive(tmp_path, root, rule, listed=False))

    assert sorted(path.name for path in root.rglob("*")) == ["etc"]


def test_only_the_folders_in_restore_to_are_allowed(tmp_path: Path, repository: Path) -> None:
    allowed = tmp_path / "allowed"
    rule = RestoreTo([str(allowed)])

    for number, place in enumerate((tmp_path, tmp_path / "allowed-too", tmp_path / "other", Path("/"))):
        assert_refused(extract(tmp_path / f"refused-{number}", repository, place, rule))
    ended = extract(tmp_path / "done", repository, allowed / "below", rule)

    assert isinstance(ended, Completed), ended
    assert (allowed / "below" / "plain").read_text() == "plain"
    assert not (tmp_path / "other").exists()


def test_an_empty_restore_to_allows_no_restore(tmp_path: Path, repository: Path) -> None:
    assert_refused(extract(tmp_path, repository, tmp_path / "anywhere", RestoreTo([])))


def test_a_link_to_a_forbidden_folder_does_not_permit_it(tmp_path: Path, repository: Path) -> None:
    (tmp_path / "shut").mkdir()
    (tmp_path / "allowed").mkdir()
    (tmp_path / "allowed" / "link").symlink_to(tmp_path / "shut")

    ended = extract(tmp_path, repository, tmp_path / "allowed" / "link", RestoreTo([str(tmp_path / "allowed")]))

    assert isinstance(ended, Failed)
    assert list((tmp_path / "shut").iterdir()) == []


def test_a_forbidden_folder_is_recognised_under_another_name(tmp_path: Path) -> None:
    """Like `/bin`, where it is a link to `/usr/bin`: the rule applies to the folder, not to one path to it."""
    (tmp_path / "real").mkdir()
    (tmp_path / "name").symlink_to("real")
    rule = RestoreTo(None, [tmp_path / "name"])

    with pytest.raises(NotAllowedThere):
        rule.require(bytes(tmp_path / "real" / "below"))


def test_the_agent_never_restores_over_itself_even_if_every_folder_is_allowed(tmp_path: Path, repository: Path) -> None:
    """Otherwise a compromised service would first replace the configuration, and then restore anywhere."""
    root = tmp_path / "root"
    places = Places(root / "etc", tmp_path / "state")
    (root / "etc").mkdir(parents=True)
    (root / "etc" / "config.toml").write_text("restore_to = []")
    rule = RestoreTo(["/"], own_places(places, [str(ENGINE)]))

    assert_refused(extract(tmp_path / "1", repository, root / "etc", rule))
    ended = extract(tmp_path / "3", repository, root, rule)

    assert isinstance(ended, Completed)
    assert (ended.details["files_restored"], ended.details["files_passed_over"]) == (1, 1)
    assert (root / "plain").read_text() == "plain"
    assert [path.name for path in (root / "etc").iterdir()] == ["config.toml"]


def test_contents_that_would_all_replace_the_agents_own_files_are_refused(tmp_path: Path, repository: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / FILE).write_text("the agent's own")
    rule = RestoreTo(["/"], [root / FILE])

    ended = extract(tmp_path, repository, root, rule, paths=["etc"], restore_layout="contents_only")

    assert isinstance(ended, Failed), ended
    assert ended.error_key == "restore.destination_forbidden"
    assert (root / FILE).read_text() == "the agent's own"
    assert [path.name for path in root.iterdir()] == [FILE]


def test_every_folder_of_the_system_is_an_absolute_path() -> None:
    assert all(folder.startswith("/") and os.path.normpath(folder) == folder for folder in SYSTEM)
