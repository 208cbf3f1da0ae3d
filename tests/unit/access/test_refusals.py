from datetime import timedelta

from holdfast.access.refusals import MAX_ALIKE, MAX_KINDS, MAX_STORED, MAX_SUMMARIES, OTHERS, Refusal, RefusalCounts
from holdfast.kit import clock

NOW = clock.now()


def refusal(address: str = "192.0.2.1", path: str = "/x") -> Refusal:
    return Refusal("access.refused", "auth.token_invalid", 401, "GET", "/x", address, path=path)


def test_the_first_few_similar_refusals_are_stored_and_the_rest_counted() -> None:
    counts = RefusalCounts()
    stored = [counts.add(refusal(path=f"/{number}"), NOW) for number in range(20)]
    assert [len(due) for due in stored] == [1] * MAX_ALIKE + [0] * (20 - MAX_ALIKE)
    assert counts.finished(NOW + timedelta(seconds=59)) == []
    assert counts.finished(NOW + timedelta(seconds=60)) == [(refusal(), 20 - MAX_ALIKE)]
    assert counts.finished(NOW + timedelta(seconds=120)) == []


def test_the_next_minute_starts_with_a_summary_of_the_previous_one() -> None:
    counts = RefusalCounts()
    for _ in range(7):
        counts.add(refusal(), NOW)
    assert counts.add(refusal(), NOW + timedelta(seconds=61)) == [(refusal(), 2), (refusal(), 1)]


def test_pending_counts_are_not_lost_at_shutdown() -> None:
    counts = RefusalCounts()
    for _ in range(7):
        counts.add(refusal(), NOW)
    assert counts.finished(NOW, at_once=True) == [(refusal(), 2)]


def test_a_flood_from_many_addresses_is_bounded_in_rows_and_memory_and_counted_in_full() -> None:
    counts = RefusalCounts()
    sent = MAX_KINDS * 2
    stored = sum(len(counts.add(refusal(f"address {number}"), NOW)) for number in range(sent))
    summaries = counts.finished(NOW + timedelta(seconds=60))
    assert stored == MAX_STORED
    assert len(summaries) == MAX_SUMMARIES + 1
    assert summaries[-1][0] == OTHERS
    assert stored + sum(count for _, count in summaries) == sent
    assert len(counts._seen) == 0
