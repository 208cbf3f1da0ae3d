"""A hostile archive cannot make a user who downloads it write outside the folder where they unpack the file."""

import io
import os
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from backup_engine.far.unpack import LONGEST_NAME, Unpacker, link_fault, name_fault
from holdfast.downloads.engine_output import EngineOutput, IncompleteOutput
from holdfast.downloads.entry_filter import LARGEST_ID, LATEST, LINK_TO_LEFT_OUT, MANIFEST, EntryFilter
from holdfast.downloads.from_tar import TarEntries, tar_blocks, zip_blocks
from tests.real.restore.archives import Archive, Workshop
from tests.support.archive_sets import OwnEngine
from tests.support.crafted import craft, craft_2, hard_link, symbolic_link
from tests.support.engines import ENGINE_2
from tests.support.running import Services

LONG = "long/" + "x" * 70_000
NAMES = ["../evil", "/absolute", "deep/../../evil", "a//b", "..", "..\\evil", "C:\\evil", "with\0nul", LONG]
LINKS = {"out": "/etc", "up": "..", "deep/up": "../..", "behind": "deep/../..", "sneaky": "deep/back/../.."}


class Stream(io.BytesIO):
    """The engine's tar stream, as a source returns it."""

    def require_good_end(self) -> None:
        assert self.read() == b""


def entry(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    content = b"content" if kind == tarfile.REGTYPE else b""
    info.size = len(content)
    if "\0" in name:
        info.pax_headers = {"path": name}  # in the older header format a NUL ends the name
    return info, content


def stream_of(*entries: tuple[tarfile.TarInfo, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=form) as tar:
        for info, content in entries:
            tar.addfile(info, io.BytesIO(content))
    return written.getvalue()


def download(stream: bytes, form: str) -> bytes:
    source = cast("EngineOutput", Stream(stream))
    entries = TarEntries(source)
    make = zip_blocks if form == "zip" else tar_blocks
    return b"".join(make(entries, entries.next()))


def names_in(content: bytes, form: str) -> dict[str, str]:
    """Names, with the targets of links."""
    if form == "tar":
        with tarfile.open(fileobj=io.BytesIO(content), errors="surrogateescape") as tar:
            return {member.name: member.linkname for member in tar.getmembers()}
    with zipfile.ZipFile(io.BytesIO(content)) as opened:
        assert opened.testzip() is None
        return {
            info.filename.rstrip("/"): opened.read(info).decode() if stat.S_ISLNK(info.external_attr >> 16) else ""
            for info in opened.infolist()
        }


def manifest_in(content: bytes, form: str) -> str:
    if form == "tar":
        with tarfile.open(fileobj=io.BytesIO(content)) as tar:
            file = tar.extractfile(MANIFEST)
            assert file is not None
            return file.read().decode()
    with zipfile.ZipFile(io.BytesIO(content)) as opened:
        return opened.read(MANIFEST).decode()


def an_entry(name: str, kind: bytes = tarfile.REGTYPE, target: str = "", **numbers: Any) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, target
    for field, value in numbers.items():
        setattr(entry, field, value)
    return entry


@pytest.mark.parametrize(
    ("before", "target", "reason"),
    [
        ([an_entry("way", tarfile.SYMTYPE, "folder")], "way/file", "the link leads out of the folder"),
        ([], "../victim", "the link leads out of the folder"),
        ([], "/etc/shadow", "the link leads out of the folder"),
        ([], "C:\\victim", "the link leads out of the folder"),
        ([an_entry("left\x00out")], "left\x00out", "the link leads out of the folder"),
        ([an_entry("out", tarfile.SYMTYPE, "../victim")], "out", LINK_TO_LEFT_OUT),
    ],
)
def test_hard_links_through_links_to_outside_paths_or_to_omitted_entries_are_omitted(
    before: list[tarfile.TarInfo], target: str, reason: str
) -> None:
    entry_filter = EntryFilter()
    for entry in before:
        entry_filter.passes(entry)

    assert not entry_filter.passes(an_entry("hard", tarfile.LNKTYPE, target))
    assert entry_filter.manifest().decode().splitlines()[-1].endswith(f": {reason}")
    assert entry_filter.passes(an_entry("another", tarfile.LNKTYPE, "file")), "an honest one"


def test_metadata_that_no_file_can_have_is_corrected() -> None:
    wild = [
        an_entry("a", mtime=float("inf"), uid=-1, gid=2**40, mode=0o7777777),
        an_entry("b", mtime=1e300),
        an_entry("c", mtime=-1e300),
    ]
    entry_filter = EntryFilter()

    assert all(entry_filter.passes(entry) for entry in wild)
    assert [entry.mtime for entry in wild] == [0, LATEST, -LATEST]
    assert (wild[0].uid, wild[0].gid, wild[0].mode) == (0, 0, 0o7777)
    honest = an_entry("d", mtime=1.5, uid=LARGEST_ID, gid=7, mode=0o4755)
    assert entry_filter.passes(honest)
    assert (honest.mtime, honest.uid, honest.gid, honest.mode) == (1.5, LARGEST_ID, 7, 0o4755)


@pytest.mark.parametrize("form", ["tar", "zip"])
@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_leads_outside_is_omitted_from_a_download_and_listed(name: str, form: str) -> None:
    content = download(stream_of(entry("before"), entry(name), entry("after")), form)

    assert sorted(names_in(content, form)) == [MANIFEST, "after", "before"]
    [line] = manifest_in(content, form).splitlines()[3:]
    assert line.startswith('"')
    assert "\0" not in line
    assert len(line) < 2000


@pytest.mark.parametrize("form", ["tar", "zip"])
@pytest.mark.parametrize("name", sorted(LINKS))
def test_a_link_that_leads_outside_is_omitted_and_listed_with_its_target(name: str, form: str) -> None:
    link = entry(name, tarfile.SYMTYPE, LINKS[name])
    content = download(stream_of(entry("deep", tarfile.DIRTYPE), link, entry("after")), form)

    assert sorted(names_in(content, form)) == [MANIFEST, "after", "deep"]
    assert f'"{name}" -> "{LINKS[name]}"' in manifest_in(content, form)


@pytest.mark.parametrize("form", ["tar", "zip"])
def test_entries_below_a_link_and_hard_links_through_one_are_omitted(form: str) -> None:
    stream = stream_of(
        entry("folder", tarfile.DIRTYPE),
        entry("link", tarfile.SYMTYPE, "folder"),
        entry("link/through"),
        entry("hard", tarfile.LNKTYPE, "link/through"),
        entry("outside", tarfile.LNKTYPE, "../victim"),
        entry("evil/../x"),
        entry("second", tarfile.LNKTYPE, "evil/../x"),
    )

    content = download(stream, form)

    assert sorted(names_in(content, form)) == [MANIFEST, "folder", "link"]
    assert len(manifest_in(content, form).splitlines()[3:]) == 5


@pytest.mark.parametrize("form", ["tar", "zip"])
def test_a_legitimate_tree_is_downloaded_completely_and_without_a_manifest(form: str) -> None:
    stream = stream_of(
        entry(".", tarfile.DIRTYPE),
        entry("a", tarfile.DIRTYPE),
        entry("a/b", tarfile.DIRTYPE),
        entry("a/b/file"),
        entry("a/b/" + "n" * 250),
        entry("a/b/up", tarfile.SYMTYPE, "../../a/b/file"),
        entry("a/b/same", tarfile.LNKTYPE, "a/b/file"),
        entry("a\\b"),
    )

    found = names_in(download(stream, form), form)

    names = {"a", "a/b", "a/b/file", "a/b/" + "n" * 250, "a/b/up", "a/b/same", "a\\b"}
    assert set(found) - {"."} == names
    assert found["a/b/up"] == "../../a/b/file"


def test_a_manifest_does_not_replace_a_file_with_the_same_name() -> None:
    content = download(stream_of(entry(MANIFEST), entry("../evil")), "tar")

    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        names = tar.getnames()
        file = tar.extractfile(MANIFEST)
    assert file is not None
    assert file.read() == b"content"
    assert len(names) == 2
    assert names[1] != MANIFEST


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_a_tar_file_keeps_content_times_owners_and_attributes(form: int) -> None:
    info, content = entry("caf\udce9")
    info.mtime, info.uid, info.uname, info.mode = 1_700_000_000, 1234, "anna", 0o4755
    if form == tarfile.PAX_FORMAT:
        info.pax_headers = {"SCHILY.xattr.user.x": "y", "mtime": "1700000000.25", "atime": "1700000001.5"}

    made = download(stream_of((info, content), form=form), "tar")

    with tarfile.open(fileobj=io.BytesIO(made), errors="surrogateescape") as tar:
        [found] = tar.getmembers()
        file = tar.extractfile(found)
        assert file is not None
        assert file.read() == b"content"
    assert (found.name, int(found.mtime), found.uid, found.uname) == ("caf\udce9", 1_700_000_000, 1234, "anna")
    assert found.mode == 0o4755
    if form == tarfile.PAX_FORMAT:
        assert found.pax_headers["SCHILY.xattr.user.x"] == "y"
        assert (found.pax_headers["mtime"], found.pax_headers["atime"]) == ("1700000000.25", "1700000001.5")


@pytest.mark.parametrize("form", ["tar", "zip"])
def test_metadata_that_no_file_can_have_does_not_break_a_download(form: str) -> None:
    info, content = entry("file")
    info.pax_headers = {"mtime": "inf", "uid": "99999999999999999999", "path": "../evil", "size": "7"}
    other, _ = entry("other")
    other.pax_headers = {"mtime": "-1e300"}

    made = download(stream_of((info, content), (other, content)), form)

    assert "other" in names_in(made, form)
    assert not any(".." in name for name in names_in(made, form))


def test_a_cut_stream_never_ends_as_if_it_were_complete() -> None:
    stream = stream_of(entry("one"), entry("two"))[:1024]

    class Cut(Stream):
        def require_good_end(self) -> None:
            raise IncompleteOutput(cast("Any", type("Ended", (), {"message": "cut", "status": "failed"})))

    source = cast("EngineOutput", Cut(stream))
    entries = TarEntries(source)
    with pytest.raises(IncompleteOutput):
        b"".join(tar_blocks(entries, entries.next()))


def test_the_same_rule_applies_to_unpacking_and_downloads(tmp_path: Path) -> None:
    told: dict[bytes, str] = {}
    names = [name for name in NAMES if "\\" not in name]
    stream = stream_of(entry("good"), *(entry(name) for name in names))
    descriptor = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)

    Unpacker(descriptor, told.__setitem__).unpack(io.BytesIO(stream))
    os.close(descriptor)

    assert [path.name for path in tmp_path.iterdir()] == ["good"]
    assert {name: name_fault(name) for name in told} == told
    assert len(told) == len(names)


def test_an_entry_that_no_system_accepts_does_not_end_the_unpacking(tmp_path: Path) -> None:
    """Otherwise the traceback's exit code would look like a completion with warnings."""
    info, content = entry("odd")
    info.pax_headers = {"mtime": "no number", "uid": "99999999999999999999"}
    descriptor = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    told: dict[bytes, str] = {}

    Unpacker(descriptor, told.__setitem__).unpack(io.BytesIO(stream_of((info, content), entry("good"))))
    os.close(descriptor)

    assert b"odd" in told
    assert (tmp_path / "good").read_text() == "content"


@pytest.mark.parametrize(
    ("name", "target", "stays"),
    [
        (b"a", b"b", True),
        (b"a/b", b"../c", True),
        (b"a/b", b"../../c", False),
        (b"a", b"..", False),
        (b"a/b/c", b"../..", True),
        (b"a/b", b"x/../y", False),
        (b"a", b"/b", False),
        (b"a", b"./b//c", True),
        (b"a", b"b" * (LONGEST_NAME + 1), False),
    ],
)
def test_a_link_may_only_lead_to_paths_inside(name: bytes, target: bytes, stays: bool) -> None:
    assert (link_fault(name, target) is None) is stays


# --- with real engines ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    services = Services(tmp_path_factory.mktemp("hostile-downloads"))
    yield Workshop(services.get())
    services.stop()


@pytest.mark.parametrize("major", [1, 2])
def test_downloads_of_a_hostile_repository_contain_nothing_that_leads_outside(
    workshop: Workshop, tmp_path: Path, major: int
) -> None:
    assert ENGINE_2 is not None
    source = tmp_path / "source"
    source.mkdir()
    (source / "file").write_text("honest")
    path, encryption = workshop.running.new_path(), "none"
    repository = workshop.running.admin.create_repository(
        path, [source], encryption=encryption, passphrase=None, index_mode="off", engine_version=major
    )
    environment = OwnEngine.of(workshop.running).environment()
    items: list[dict[str, Any]] = [
        symbolic_link("out", "/etc", major=major),
        symbolic_link("inside", "file", major=major),
        {"path": "with\0nul"},
        {"path": "x" * 70_000},
        {"path": "last"},
    ]
    if major == 1:
        craft(path, "hostile", source, [*items, {"path": "../evil"}, hard_link("hard", "../victim")], environment)
    else:
        craft_2(path, "hostile", source, items, environment)
    archive = workshop.archive_id(Archive(repository, "hostile"))

    for form in ("tar", "zip"):
        url = f"/api/repositories/{repository['id']}/archives/{archive}/download?format={form}"
        answer = workshop.running.admin.get(url)
        assert answer.status_code == 200, answer.text
        found = names_in(answer.content, form)
        assert {"file", "inside", "last", MANIFEST} <= set(found)
        assert not any(".." in name or name.startswith("/") or len(name) > LONGEST_NAME for name in found)
        assert "out" not in found
        assert "hard" not in found
        assert '"out" -> "/etc"' in manifest_in(answer.content, form)
