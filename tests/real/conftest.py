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
        "test_a_backup_goes_on_without_the_service_and_is_reported_when_it_is_back",
        "test_a_backup_that_finished_while_nobody_watched_is_recorded_as_finished",
        "test_a_cancel_ends_the_engine_and_leaves_nothing",
        "test_a_cancel_reaches_an_agent_that_was_away",
        "test_a_cancel_that_comes_after_the_work_was_done_does_not_deny_it",
        "test_a_cancel_that_was_asked_for_while_the_service_was_away_is_carried_out",
        "test_a_cancelled_sync_leaves_a_mirror_that_opens_and_the_next_one_makes_it_equal",
        "test_a_hydrate_that_is_cut_off_goes_on_where_it_was",
        "test_a_link_restored_from_one_archive_is_not_written_through_by_the_next",
        "test_a_link_that_is_cut_restores_nothing_and_says_so",
        "test_a_mirror_is_tried_filled_told_of_and_brought_back",
        "test_a_preview_tells_what_is_there_already",
        "test_a_prune_is_seen_before_it_is_done_and_an_archive_deleted_only_after_a_yes",
        "test_a_restore_waits_for_a_backup_and_runs_beside_another_restore",
        "test_a_running_operation_is_cancelled_when_its_engine_has_stopped",
        "test_a_second_restore_over_the_first_changes_nothing",
        "test_a_service_that_is_killed_meanwhile_finds_the_restore_again",
        "test_a_stopped_service_leaves_its_engine_running_and_the_next_start_finishes_the_record",
        "test_a_stream_that_is_cut_is_received_again_from_its_beginning",
        "test_a_sync_that_is_cut_off_goes_on_and_ends_equal[rclone]",
        "test_a_waiting_restore_is_cancelled_at_once",
        "test_a_wipe_is_judged_by_evidence_when_everything_was_killed_at_once",
        "test_a_wipe_whose_compaction_is_killed_is_finished_and_counts_each_archive_once",
        "test_after_a_repair_what_was_lost_is_still_not_proven",
        "test_an_archive_that_is_gone_fails_and_says_so",
        "test_an_encrypted_repository_is_restored_like_a_plain_one",
        "test_an_engine_killed_before_its_work_is_started_again[check-check]",
        "test_an_engine_killed_before_its_work_is_started_again[wipe-delete]",
        "test_an_engine_that_breaks_off_restores_nothing",
        "test_an_engine_that_does_not_end_well_restores_nothing",
        "test_an_engine_whose_end_nobody_wrote_down_is_judged_by_what_it_left[prune-prune]",
        "test_an_engine_whose_end_nobody_wrote_down_is_judged_by_what_it_left[wipe-delete]",
        "test_an_install_that_was_killed_is_failed_and_not_begun_again",
        "test_an_operation_over_a_cut_network_is_recorded_as_it_ended[restore-here-cable]",
        "test_claimers_that_are_killed_share_the_work_and_never_an_operation[sqlite]",
        "test_folders_above_what_is_restored_keep_their_modes",
        "test_folders_that_share_names_are_not_mixed",
        "test_heartbeats_go_on_while_a_job_runs",
        "test_it_is_restored_to_a_machine_by_ssh",
        "test_it_is_restored_to_the_machine_of_another_agent",
        "test_once_does_one_job_and_tells_by_its_code_how_it_ended",
        "test_the_engine_of_a_request_keeps_its_repository_when_the_service_goes[15]",
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
            {item.name, item.name.partition("[")[0]} & ALSO_AT_LENGTH
            or any(item.path.is_relative_to(HERE / name) for name in AT_LENGTH)
            or (is_older and any(item.path.is_relative_to(HERE / name) for name in OF_THE_NEWER_SERIES_ONLY))
        ):
            item.add_marker(pytest.mark.campaign)


class _NoParameters:
    id = ""
