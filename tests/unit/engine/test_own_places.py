import os
import re
from pathlib import Path

import pytest

from backup_engine import own_places
from backup_engine.own_places import Mount, OwnPlaces, between, current_mounts, is_really_within, is_within


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "srv" / "data"
    (folder / "ssh").mkdir(parents=True)
    (folder / "secret.key").write_text("key")
    (tmp_path / "srv" / "other").mkdir()
    return folder


def test_a_place_holds_itself_and_everything_in_it(data: Path) -> None:
    places = OwnPlaces([str(data)])

    held = [str(data), f"{data}/", f"{data}/ssh/new", f"/{data}", f"{data}/../data", f"{data.parent}/other/../data/ssh"]
    assert [path for path in held if not places.holds(path)] == []
    assert not places.holds(str(data.parent))
    assert not places.holds(f"{data}x")


def test_links_that_lead_to_a_place_are_followed(data: Path, tmp_path: Path) -> None:
    places = OwnPlaces([str(data)])
    (tmp_path / "link").symlink_to(data.parent)

    assert places.holds(f"{tmp_path}/link/data/ssh")
    assert places.names_below(f"{tmp_path}/link/.") == (f"{tmp_path}/link/data",)
    assert places.exclusions([f"{tmp_path}/link/."]) == (f"pp:{tmp_path}/link/data",)


def test_a_place_behind_a_link_is_found_under_both_names(data: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(data)
    places = OwnPlaces([f"{tmp_path}/link"])

    assert places.holds(str(data))
    assert places.holds(f"{tmp_path}/link")
    assert set(places.names) == {str(data), f"{tmp_path}/link"}


def test_a_backup_of_any_folder_above_a_place_excludes_it(data: Path) -> None:
    places = OwnPlaces([str(data)])

    assert places.exclusions(["/"]) == (f"pp:{data}",)
    assert places.exclusions([str(data.parent), "/"]) == (f"pp:{data}",)
    assert places.exclusions([f"{data.parent}/other"]) == ()


def test_only_admitted_paths_are_let_through(data: Path) -> None:
    places = OwnPlaces([str(data)])

    assert places.exclusions(["/", str(data)], [str(data)]) == ()
    [pattern] = places.exclusions(["/", f"{data}/ssh"], [f"{data}/ssh"])
    assert pattern.startswith("re:")
    excluded = re.compile(pattern.removeprefix("re:"))
    names = [str(data), f"{data}/secret.key", f"{data}/ssh", f"{data}/ssh/key", f"{data}/sshd", f"{data}x"]
    assert [name for name in names if excluded.search(name.lstrip("/"))] == [
        str(data),
        f"{data}/secret.key",
        f"{data}/sshd",
    ]


def test_other_names_of_an_admitted_place_stay_excluded(data: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(data.parent)

    patterns = OwnPlaces([str(data)]).exclusions([str(data), f"{tmp_path}/link/data"], [str(data)])

    assert patterns == (f"pp:{tmp_path}/link/data",)


def test_a_hard_link_to_a_secret_is_excluded(data: Path) -> None:
    os.link(data / "secret.key", data.parent / "other" / "copy")

    with_secrets = OwnPlaces([str(data)], secrets=[str(data)])
    without = OwnPlaces([str(data)])

    assert with_secrets.exclusions([str(data.parent / "other")]) == (f"pf:{data.parent}/other/copy",)
    assert with_secrets.exclusions([str(data.parent / "other" / "copy")]) == (f"pf:{data.parent}/other/copy",)
    assert without.exclusions([str(data.parent / "other")]) == ()


def test_a_place_is_also_found_in_a_second_mount(data: Path, tmp_path: Path) -> None:
    """As the mount table would list it; the identities are real because a link stands in for the mount."""
    (tmp_path / "second").symlink_to(tmp_path / "srv")
    mounts = [Mount("8:1", "/", "/", "ext4"), Mount("8:1", str(data.parent), str(tmp_path / "second"), "ext4")]

    places = OwnPlaces([str(data)], mounts=mounts)

    assert f"{tmp_path}/second/data" in places.names
    assert places.exclusions(["/"]) == (f"pp:{tmp_path}/second/data", f"pp:{data}")


def test_a_place_in_a_second_mount_is_found_if_the_table_does_not_name_its_file_system(
    data: Path, tmp_path: Path
) -> None:
    """As in a chroot: its root is not a mount, and the table contains the paths of the machine outside."""
    (tmp_path / "second").symlink_to(data.parent)
    device = data.stat().st_dev
    at = f"{os.major(device)}:{os.minor(device)}"
    mounts = [Mount(at, f"/outside{data.parent}", str(tmp_path / "second"), "ext4")]

    assert f"{tmp_path}/second/{data.name}" in OwnPlaces([str(data)], mounts=mounts).names


def test_a_mount_of_another_device_is_not_examined(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its server may be gone, and then a stat call never returns."""
    looked, identity = [], own_places._identity
    monkeypatch.setattr(own_places, "_identity", lambda path: looked.append(path) or identity(path))

    OwnPlaces([str(data)], mounts=[Mount("0:4095", "/", "/srv/far", "nfs4")])

    assert str(data) in looked
    assert "/srv/far" not in looked


def test_a_mount_of_part_of_a_place_is_found(data: Path, tmp_path: Path) -> None:
    (tmp_path / "second").symlink_to(data / "ssh")
    mounts = [Mount("8:1", "/", "/", "ext4"), Mount("8:1", f"{data}/ssh", str(tmp_path / "second"), "ext4")]

    assert f"{tmp_path}/second" in OwnPlaces([str(data)], mounts=mounts).names


def test_a_mount_hidden_by_another_mount_adds_no_name(data: Path, tmp_path: Path) -> None:
    (tmp_path / "second" / "data").mkdir(parents=True)
    mounts = [Mount("8:1", "/", "/", "ext4"), Mount("8:1", str(data.parent), str(tmp_path / "second"), "ext4")]

    assert OwnPlaces([str(data)], mounts=mounts).names == (str(data),)


def test_the_mount_table_is_parsed(tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    table.write_text("36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 - ext3 /dev/root rw\nbroken\n")

    assert current_mounts(table) == (Mount("98:0", "/mnt1", "/mnt 2", "ext3"),)
    assert current_mounts(tmp_path / "missing") == ()


def test_archived_names_match_those_that_the_engine_stores(data: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(data.parent)
    places = OwnPlaces([str(data)])

    names = places.archived_names([f"{tmp_path}/link/data", f"{tmp_path}/./srv", f"{data}/./ssh"])

    plain = str(data).lstrip("/")
    assert {plain, f"{tmp_path}/link/data".lstrip("/"), "srv/data", "ssh"} <= set(names)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/srv/a", True),
        ("/srv/a/b", True),
        ("/srv//a/b/", True),
        ("/srv/ab", False),
        ("/srv/a/../b", False),
        ("/srv/a/./b", False),
        ("/srv", False),
        ("srv/a", False),
        ("/srv/./exact", True),
    ],
)
def test_whether_a_path_is_within_the_sources_depends_on_its_name(path: str, expected: bool) -> None:
    assert is_within(path, ["/srv/a", "/srv/./exact"]) is expected


def test_a_path_through_a_link_out_of_the_sources_is_not_within_them(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "out").symlink_to("/etc")

    assert is_really_within(f"{source}/out", [str(source)]), "the link itself is archived, not what it leads to"
    assert not is_really_within(f"{source}/out/passwd", [str(source)])
    assert is_really_within(f"{source}/deep/file", [str(source)])
    (tmp_path / "alias").symlink_to(source)
    assert is_really_within(f"{tmp_path}/alias/file", [f"{tmp_path}/alias"])


@pytest.mark.parametrize(
    ("path", "folders"),
    [
        ("/srv/a/b/file", ["/srv/a", "/srv/a/b"]),
        ("/srv/file", []),
        ("/srv", []),
        ("/srv/home/x/y", ["/srv/home/x"]),
        ("//srv//a/file/", ["/srv/a"]),
        ("/srvx/a/file", []),
    ],
)
def test_the_folders_between_a_source_and_a_path_below_it_are_listed(path: str, folders: list[str]) -> None:
    assert between(path, ["/srv/", "/srv/home"]) == folders


def test_all_parent_folders_are_between_the_root_and_a_path() -> None:
    assert between("/srv/a/file", ["/"]) == ["/srv", "/srv/a"]
