"""Patterns of paths that the file history leaves out."""

import pytest

from holdfast.history.excludes import Excludes


@pytest.mark.parametrize(
    ("pattern", "path", "left_out"),
    [
        ("home/*/.cache", b"home/u/.cache", True),
        ("home/*/.cache", b"home/u/.cache/x/y", True),
        ("home/*/.cache", b"home/u/.cachet", False),
        ("/home/u/", b"home/u/x", True),
        ("*.o", b"src/deep/a.o", True),
        ("*.o", b"src/a.o/b", True),
        ("*.o", b"a.ox", False),
        ("a?c", b"abc", True),
        ("a?c", b"a/c", True),
        ("[ab]/x", b"b/x", True),
        ("[!ab]/x", b"b/x", False),
        ("caf\udce9", b"caf\xe9/x", True),
        ("é", "é/x".encode(), True),
        ("x", b"y/x", False),
        ("new\nline", b"new\nline/x", True),
        ("*", b"new\nline/x", True),
        ("a.c", b"abc", False),
        ("a*b*c", b"a/b/b/c/d", True),
    ],
)
def test_a_pattern_leaves_out_the_paths_that_match_it(pattern: str, path: bytes, *, left_out: bool) -> None:
    assert Excludes([pattern]).match(path) is left_out


def test_nothing_is_left_out_without_patterns() -> None:
    assert not Excludes()
    assert not Excludes(["", "/"])
    assert not Excludes([""]).match(b"anything")


def test_the_fingerprint_depends_on_the_set_of_patterns_and_not_on_their_order() -> None:
    assert Excludes(["a", "b"]).fingerprint == Excludes([b"b", "a", "a/"]).fingerprint
    assert Excludes(["a"]).fingerprint != Excludes(["b"]).fingerprint
    assert Excludes(["a"]).fingerprint != Excludes().fingerprint
