"""How much of a long result goes into the message that reports it."""

from backup_agent.message_bounds import MOST_CHARACTERS, bounded_details, bounded_warnings


def test_long_lists_of_details_are_cut_and_counts_are_kept() -> None:
    archives = [{"archive": "x" * 1000, "id": "y"} for _ in range(1000)]

    bounded = bounded_details({"prune": archives, "pruned_count": 1000, "problems": ["short"]})

    assert 0 < len(bounded["prune"]) <= MOST_CHARACTERS / 1000
    assert (bounded["pruned_count"], bounded["problems"]) == (1000, ["short"])


def test_warnings_are_limited_in_length_and_number() -> None:
    kept = bounded_warnings({"path": None, "message": "w" * 10_000} for _ in range(1000))

    assert {len(warning["message"]) for warning in kept} == {2000}
    assert len(kept) < 60
