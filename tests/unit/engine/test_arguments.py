"""What is allowed in a command line, and how it is written there."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as some

from backup_engine.borg1 import arguments
from backup_engine.requests import InvalidRequest, RepositoryLocation


def repository(path: str, remote_path: str | None = None) -> str:
    return arguments.repository(RepositoryLocation(path, remote_path=remote_path))


@pytest.mark.parametrize(
    "path",
    [
        "/backups/r",
        "/backups/with space: and colon",
        "file:///backups/r",
        "ssh://host/backups",
        "ssh://user@host:2222/./backups",
        "ssh://user@[2001:db8::1]/backups".replace("::", ":0:"),
        "user@host:backups/r",
        "host:~/backups",
    ],
)
def test_a_repository_path_that_the_engine_understands_is_accepted(path: str) -> None:
    assert repository(path) == path


@pytest.mark.parametrize(
    "path",
    [
        "",
        "backups",
        "./backups",
        "//backups",
        "-r",
        "--rsh=sh",
        "/backups::archive",
        "/backups/{now}",
        "/backups/}",
        "/back\nups",
        "/back\0ups",
        "ssh://-oProxyCommand=id/backups",
        "ssh://-l@host/backups",
        "ssh://user@-host/backups",
        "ssh://host",
        "-oProxyCommand=id:backups",
        "user@-host:backups",
        "rsync://host/backups",
    ],
)
def test_a_repository_path_that_the_engine_or_ssh_would_misread_is_refused(path: str) -> None:
    with pytest.raises(InvalidRequest):
        repository(path)


@pytest.mark.parametrize("program", ["borg", "/usr/local/bin/borg1", "~/bin/borg-1.4"])
def test_a_program_on_the_far_side_is_accepted(program: str) -> None:
    assert repository("ssh://host/r", program) == "ssh://host/r"


@pytest.mark.parametrize("program", ["", "-x", "borg;id", "borg serve", "$(id)", "borg\n", "{now}"])
def test_a_program_on_the_far_side_that_its_shell_would_misread_is_refused(program: str) -> None:
    with pytest.raises(InvalidRequest):
        repository("ssh://host/r", program)


@given(some.text())
def test_a_literal_is_unchanged_after_the_engine_replaces_placeholders(text: str) -> None:
    # The engine uses format_map, as here.
    assert arguments.literal(text).format_map({}) == text


@pytest.mark.parametrize(
    "name", ["a", "host-{now}", "{hostname}-{utcnow:%Y-%m-%dT%H:%M:%S}", "ümlaut", "a b", "a:b", "{uuid4}"]
)
def test_a_new_archive_name_is_accepted_with_its_placeholders(name: str) -> None:
    assert arguments.new_archive(RepositoryLocation("/r"), name) == f"/r::{name}"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "-a",
        "a/b",
        "a::b",
        " a",
        "a ",
        "a\nb",
        "a" * 256,
        "{unknown}",
        "{now!r}",
        "{now.__class__}",
        "{",
        "a}",
        "a.checkpoint",
        "a.checkpoint.1",
    ],
)
def test_an_archive_name_that_is_invalid_or_that_the_engine_would_change_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest):
        arguments.new_archive(RepositoryLocation("/r"), name)


@pytest.mark.parametrize("name", ["-a", "a::b", " a ", "a.checkpoint", "{x}"])
def test_an_existing_archive_can_be_addressed_whatever_its_name(name: str) -> None:
    assert arguments.archive(RepositoryLocation("/r"), name) == f"/r::{arguments.literal(name)}"


@pytest.mark.parametrize(
    ("path", "selected"), [("/home/x", "pp:home/x"), ("a//b", None), ("re:x", "pp:re:x"), ("-x/", "pp:-x")]
)
def test_an_exact_path_selects_only_itself_and_is_never_read_as_a_pattern(path: str, selected: str | None) -> None:
    if selected is None:
        with pytest.raises(InvalidRequest):
            arguments.archived_path(path)
    else:
        assert arguments.archived_path(path) == selected


@pytest.mark.parametrize("path", ["", "/", "..", "a/../b", "./a", "a\0b"])
def test_a_path_that_cannot_be_in_an_archive_is_refused(path: str) -> None:
    with pytest.raises(InvalidRequest):
        arguments.archived_path(path)


def test_undecodable_bytes_of_a_path_are_kept() -> None:
    assert arguments.archived_path("caf\udce9") == "pp:caf\udce9"
    assert arguments.source_path("/caf\udce9") == "/caf\udce9"


@pytest.mark.parametrize("text", ["*.tmp", "re:^/a+$", "sh:**/x", "fm:*", "pp:/x", "pf:/x", "/a:b", "-x", "C:x"])
def test_a_pattern_of_a_supported_style_is_accepted(text: str) -> None:
    assert arguments.pattern(text) == text


@pytest.mark.parametrize("text", ["", "re:(", "xx:y", "a\nb"])
def test_a_pattern_that_the_engine_would_refuse_is_refused_first(text: str) -> None:
    with pytest.raises(InvalidRequest):
        arguments.pattern(text)


@pytest.mark.parametrize(
    "text", ["none", "lz4", "zstd", "zstd,22", "zlib,0", "lzma,9", "auto,lzma,6", "obfuscate,110,zstd,3"]
)
def test_a_compression_that_the_engine_supports_is_accepted(text: str) -> None:
    assert arguments.compression(text) == text


@pytest.mark.parametrize(
    "text", ["", "gzip", "zstd,23", "zstd,0", "lz4,1", "none,1", "auto", "zstd,3,4", "--help", "zstd\n"]
)
def test_a_compression_that_the_engine_does_not_support_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        arguments.compression(text)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ((), ()),
        (("--one-file-system", "--noatime"), ("--one-file-system", "--noatime")),
        (("--exclude-if-present", ".nobackup"), ("--exclude-if-present=.nobackup",)),
        (("--exclude-if-present=.nobackup",), ("--exclude-if-present=.nobackup",)),
        (("--files-cache", "disabled"), ("--files-cache=disabled",)),
        (("--chunker-params", "buzhash,10,23,16,4095"), ("--chunker-params=buzhash,10,23,16,4095",)),
        (("--chunker-params=fixed,4194304", "--sparse"), ("--chunker-params=fixed,4194304", "--sparse")),
    ],
)
def test_custom_flags_in_the_table_are_accepted(flags: tuple[str, ...], expected: tuple[str, ...]) -> None:
    assert arguments.custom_flags(flags) == expected


@pytest.mark.parametrize(
    "flags",
    [
        ("--rsh=sh",),
        ("--remote-path", "x"),
        ("--debug-profile=/etc/passwd",),
        ("--patterns-from=/etc/shadow",),
        ("--exclude-from=/etc/shadow",),
        ("--content-from-command",),
        ("--paths-from-command",),
        ("--one-file-sys",),
        ("--one-file-system=yes",),
        ("--exclude-if-present",),
        ("--exclude-if-present", "--rsh"),
        ("--exclude-if-present", "a/b"),
        ("--files-cache", "often"),
        ("--chunker-params", "1"),
        ("--", "/etc"),
        ("/etc",),
        ("",),
    ],
)
def test_custom_flags_outside_the_table_or_with_invalid_values_are_refused(flags: tuple[str, ...]) -> None:
    with pytest.raises(InvalidRequest):
        arguments.custom_flags(flags)


@given(some.lists(some.text(alphabet=string.printable, max_size=30), max_size=4))
def test_custom_flags_never_pass_a_word_that_is_not_in_the_table(flags: list[str]) -> None:
    try:
        accepted = arguments.custom_flags(tuple(flags))
    except InvalidRequest:
        return
    assert {word.partition("=")[0] for word in accepted} <= set(arguments.CUSTOM_FLAGS)
