"""Does the record match what the engine did?"""

from collections.abc import Iterator

from tests.chaos.partition.partitioned_round import PartitionedRound

SUCCEEDED = ("completed", "completed_with_warnings")
MOST_STARTS = 3


def verify(played: PartitionedRound, comments: list[str]) -> list[str]:
    """Given a round and the comments of all archives, return a sentence for each violation."""
    found = [sentence for number in played.jobs for sentence in _job(played, number, comments)]
    found += [f"two engines were in one repository: {overlap}" for overlap in played.world.site.engine.overlaps()]
    return found


def _job(played: PartitionedRound, number: int, comments: list[str]) -> Iterator[str]:
    site = played.world.site
    job, ended = played.jobs[number], played.ended[number]
    status, told = ended["status"], f"job {number} (operation {played.jobs[number]}, {ended['status']})"
    if ended["result"] is None and status == "cancelled" and ended["started_at"] is None:
        return  # cancelled before any agent had it
    key = site.key_of(job)
    archives = sum(f"holdfast:{key}" in comment.split() for comment in comments)
    starts, struck = site.engine.starts_of(key), played.struck.get(number, 0)
    if status in SUCCEEDED and archives != 1:
        yield f"{told} has {archives} archives"
    if status not in SUCCEEDED and archives:
        yield f"{told} has an archive all the same"
    if status == "cancelled" and number not in played.cancelled:
        yield f"{told} was never cancelled"
    if status == "failed" and struck < MOST_STARTS:
        yield f"{told} failed after {struck} kills: {ended['error_key']} {ended['error_message']}"
    if status not in (*SUCCEEDED, "cancelled", "failed"):
        yield f"{told} has not ended"
    if len(starts) > 1 + struck:
        yield f"{told} was started {len(starts)} times, struck {struck} times"
    try:
        site.check_log(job)
    except AssertionError as complaint:
        yield f"{told} has a wrong log: {complaint}"
