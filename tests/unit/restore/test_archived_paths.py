"""Paths in the forms in which clients send them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backup_jobs import paths as job_paths
from holdfast.errors import Unprocessable
from holdfast.repositories import archived_paths
from holdfast.restore.destination import normal_destination

names = st.binary(min_size=1, max_size=20).filter(lambda name: not {0, 0x2F} & set(name) and name not in (b".", b".."))
paths = st.lists(names, min_size=1, max_size=6).map(b"/".join)


@given(paths)
def test_every_path_survives_its_json_form(path: bytes) -> None:
    assert job_paths.from_json(job_paths.to_json(path)) == path


@given(paths)
def test_a_shown_path_is_exact_or_includes_its_exact_form(path: bytes) -> None:
    shown = job_paths.shown(path)

    exact = {"path_b64": shown["path_b64"]} if "path_b64" in shown else shown["path"]
    assert job_paths.from_json(exact) == path


@pytest.mark.parametrize(
    ("given_path", "stored"),
    [
        ("home/user", b"home/user"),
        ("/home/user", b"home/user"),
        ("//home//user/", b"home/user"),
        ("./home/./user", b"home/user"),
        ({"path_b64": "Y2Fm6Q=="}, b"caf\xe9"),
        ({"path_b64": "L2NhZuk="}, b"caf\xe9"),
        ("...", b"..."),
        ("a\nb", b"a\nb"),
    ],
)
def test_a_path_is_stored_as_the_engine_stores_it(given_path: str | dict[str, str], stored: bytes) -> None:
    assert archived_paths.inside_archive([given_path]) == [stored]


@pytest.mark.parametrize(
    "path", ["..", "../etc", "/..", "home/../etc", "a/..", {"path_b64": "Li4="}, {"path_b64": "no base64"}, "a\0b"]
)
def test_a_path_that_leads_outside_the_archive_is_refused(path: str | dict[str, str]) -> None:
    with pytest.raises(Unprocessable) as refusal:
        archived_paths.inside_archive(["fine", path])

    assert refusal.value.key == "restore.bad_path"


@pytest.mark.parametrize("root", ["/", "", "."])
def test_the_root_is_the_whole_archive(root: str) -> None:
    assert archived_paths.inside_archive(["home", root]) == []


def test_duplicate_paths_are_merged() -> None:
    assert archived_paths.inside_archive(["a", "/a", "b", "a/"]) == [b"a", b"b"]


def test_paths_below_another_requested_path_are_dropped() -> None:
    assert archived_paths.outermost([b"a/b/c", b"a", b"ab", b"a/b", b"x/y"]) == [b"a", b"ab", b"x/y"]


@pytest.mark.parametrize(
    ("text", "normal"), [("/a/b", b"/a/b"), ("/a//b/./", b"/a/b"), ("/", b"/"), ({"path_b64": "L2PpCg=="}, b"/c\xe9\n")]
)
def test_a_destination_is_normalised(text: str | dict[str, str], normal: bytes) -> None:
    assert normal_destination(text) == normal


@pytest.mark.parametrize("text", ["", "relative", "./a", "~/a", "/a/../b", "/..", "/a\0b", {"path_b64": "YQ=="}])
def test_a_destination_that_is_relative_or_contains_parent_folders_is_refused(text: str | dict[str, str]) -> None:
    with pytest.raises(Unprocessable) as refusal:
        normal_destination(text)

    assert refusal.value.key == "restore.bad_destination"
