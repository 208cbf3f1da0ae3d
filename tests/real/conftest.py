from pathlib import Path

import pytest

HERE = Path(__file__).parent
AT_LENGTH = (
    "archives",
    "machines/test_kills.py",
    "maintenance/test_lanes.py",
    "maintenance/test_prune_agreement.py",
    "maintenance/test_wipe_in_parts.py",
    "restore/test_kills.py",
    "targets",
)
OF_THE_NEWER_SERIES_ONLY = ("history", "maintenance/test_damage.py", "restore", "test_failures.py")
"""Long ones that both series pass alike: `make test` plays them with the newer one."""

ALSO_AT_LENGTH = frozenset(
    {
        "test_a_cancel_that_comes_after_the_work_was_done_does_not_deny_it",
        "test_a_cancelled_sync_leaves_a_mirror_that_opens_and_the_next_one_makes_it_equal",
        "test_a_hydrate_that_is_cut_off_goes_on_where_it_was",
        "test_a_link_restored_from_one_archive_is_not_written_through_by_the_next",
        "test_a_mirror_is_tried_filled_told_of_and_brought_back",
        "test_a_preview_tells_what_is_there_already",
        "test_a_prune_is_seen_before_it_is_done_and_an_archive_deleted_only_after_a_yes",
        "test_a_running_operation_is_cancelled_when_its_engine_has_stopped",
        "test_a_stream_that_is_cut_is_received_again_from_its_beginning",
        "test_a_wipe_whose_compaction_is_killed_is_finished_and_counts_each_archive_once",
        "test_an_engine_that_breaks_off_restores_nothing",
        "test_it_is_restored_to_a_machine_by_ssh",
        "test_it_is_restored_to_the_machine_of_another_agent",
        "test_what_is_there_is_kept_replaced_or_a_reason_to_stop",
        "test_work_goes_on_while_the_service_is_down_and_is_found_again",
    }
)
"""Single ones beside which `make test` plays others of the same kind."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs minutes of real engines is played by `make campaign`: `make test` has twenty in all."""
    for item in items:
        if not item.path.is_relative_to(HERE):
            continue
        is_older = "1.2" in getattr(item, "callspec", _NoParameters).id.split("-")
        if (
            item.name.partition("[")[0] in ALSO_AT_LENGTH
            or any(item.path.is_relative_to(HERE / name) for name in AT_LENGTH)
            or (is_older and any(item.path.is_relative_to(HERE / name) for name in OF_THE_NEWER_SERIES_ONLY))
        ):
            item.add_marker(pytest.mark.campaign)


class _NoParameters:
    id = ""
