"""Which files are mirrored in which pass."""

import itertools
import re

from hypothesis import given
from hypothesis import strategies as st

from holdfast.mirror.layouts import LAYOUTS
from holdfast.mirror.number_pattern import up_to


@given(st.integers(0, 10**7), st.integers(0, 10**7))
def test_the_pattern_matches_exactly_the_numbers_up_to_its_limit(newest: int, number: int) -> None:
    assert bool(re.fullmatch(up_to(newest), str(number))) == (number <= newest)


@given(st.integers(0, 10**6))
def test_the_pattern_matches_its_limit_and_not_the_next_number(newest: int) -> None:
    assert re.fullmatch(up_to(newest), str(newest))
    assert not re.fullmatch(up_to(newest), str(newest + 1))


def rules(arguments: tuple[str, ...]) -> list[str]:
    return [value for name, value in itertools.pairwise(arguments) if name == "--filter"]


def test_data_is_copied_first_without_commits_locks_and_uncommitted_segments() -> None:
    first = LAYOUTS[1].first(None, ["data/0/17"])

    assert rules(first)[-2:] == ["+ /data/**", "- *"]
    assert {"- /lock.roster*", "- /lock.exclusive/**", "- /data/0/17"} < set(rules(first))
    assert first[-2:] == ("--min-size", "18B")


def test_the_newest_mirrored_segment_separates_mirrored_from_new_data() -> None:
    known, new = LAYOUTS[1].known(12, []), LAYOUTS[1].first(12, [])
    pattern = "/data/*/{{(?:" + up_to(12) + ")}}"

    assert f"+ {pattern}" in rules(known)
    assert "+ /data/**" not in rules(known)
    assert rules(new).index(f"- {pattern}") < rules(new).index("+ /data/**")


def test_locks_and_caches_are_never_mirrored() -> None:
    assert {"- /locks/**", "- /cache/**"} <= set(rules(LAYOUTS[2].everything([])))
    assert "- /lock.exclusive/**" in rules(LAYOUTS[1].everything([]))
