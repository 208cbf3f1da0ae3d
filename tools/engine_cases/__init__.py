"""The recorded cases of each engine: what it is asked to do, and what interferes."""

from collections.abc import Mapping

from engine_cases import keeping, making, reading, refusals

CASES = (*making.CASES, *refusals.CASES, *keeping.CASES, *reading.CASES)

ONLY_OF_MAJOR: Mapping[str, int] = {
    **dict.fromkeys(("undelete_archive", "list_deleted_archives", "info_archive_ambiguous", "locked_exclusively"), 2),
    **dict.fromkeys(("create_with_placeholder", "create_archive_exists", "create_sigint", "locked", "break_lock"), 1),
    **dict.fromkeys(("locked_by_another_host", "unreachable", "remote_engine_missing"), 1),
}
"""Cases that make no sense for the other major."""
