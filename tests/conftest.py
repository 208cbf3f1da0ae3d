"""Which tests `make test` runs, and which only `make campaign`. docs/develop.md explains the same in words."""

import functools
import gc
import os
import re
from collections.abc import Generator, Iterator
from pathlib import Path

import hypothesis
import pytest
import structlog
from hypothesis.internal.conjecture import providers

from backup_engine.process import NICENESS_VARIABLE
from tests.support import witnesses

HERE = Path(__file__).parent
os.environ.setdefault(NICENESS_VARIABLE, "0")  # tests wait for engines, whatever else the machine does

# A machine that stalls for a second proves nothing, so no profile has a deadline. The examples of `make test` are the
# same each time; the campaign generates new ones (`--hypothesis-profile campaign`).
hypothesis.settings.register_profile("tests", deadline=None, derandomize=True, database=None)
hypothesis.settings.register_profile("campaign", deadline=None, max_examples=1000)
hypothesis.settings.load_profile("tests")
# Tracebacks with local variables take a second each; the service's own never have them.
structlog.configure(
    processors=[
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ]
)
# With the default of 700 objects, garbage collection takes a tenth of the processor time of a test process.
gc.set_threshold(50_000, 20, 20)
# Constants of whichever modules are loaded would lead to different examples in each process, and take seconds to
# collect.
providers._get_local_constants = lambda: providers._local_constants

ON_ONE_STORE = (
    "attacks",
    "contract/access",
    "contract/agents",
    "contract/alarms",
    "contract/archives",
    "contract/backup",
    "contract/maintenance",
    "contract/metrics",
    "contract/mirror",
    "contract/notifications",
    "contract/packages",
    "contract/repositories",
    "contract/restore",
    "contract/schedules",
    "contract/scripts",
    "contract/system",
    "unit/alarms",
    "unit/archives/test_fleet_names.py",
    "unit/notifications",
)
"""Tests that exist for both stores but are about parts around the store: `make test` runs them on SQLite, the campaign
on PostgreSQL.

All other tests run on both, because queries, locks and events differ between stores.
"""
WITH_ONE_SERIES = (
    "contract",
    "engine/test_real_engines.py",
    "real/history",
    "real/maintenance/test_damage.py",
    "real/restore",
    "real/test_failures.py",
)
"""Tests that exist for both series of engine 1: `make test` runs them with the newer one, the campaign with the older.

The output of the older one is recorded, and the recordings are checked each time.
"""
WITH_ONE_MAJOR = (
    "attacks/identity",
    "attacks/places",
    "attacks/test_agent_restores_count.py",
    "attacks/test_hostile_archives_over_http.py",
    "attacks/test_hostile_downloads.py",
    "real/dumps",
    "real/schedules",
    "real/test_remembered_answers.py",
)
"""Tests that exist for both majors: `make test` runs them with engine 1, the campaign with engine 2.

The contract of engine 2 is in `contract/engine2`, its adapter in `engine`; those tests run each time.
"""
ON_ONE_MACHINE = (
    "attacks/identity/test_other_machines.py",
    "attacks/test_agent_restores_count.py::test_an_ssh_machine_that_restores_one_of_three_files_fails_and_names_the_others",
    "contract/machines/test_engine_there.py::test_a_backup_is_retried_when_the_machine_is_briefly_unreachable",
    "contract/machines/test_restore.py::test_a_backup_run_on_the_machine_excludes_the_service_on_it",
    "real/agent/test_received_restores.py",
    "real/agent/test_sent_restores.py",
    "real/machines/test_cut_networks.py",
    "real/machines/test_kills.py",
    "real/machines/test_streamed_restores.py",
    "real/schedules/test_story.py::test_an_agent_that_was_offline_gets_a_single_run_when_it_returns",
    "real/scripts/test_on_ssh.py",
    "real/targets",
)
"""Tests of agents and ssh machines that repeat what `make test` covers on the service's own machine.

What differs there is tested each time: the whole story, the contract, and kills.
"""
AT_LENGTH = (
    "attacks/identity/test_imports_of_many_archives.py::test_the_history_of_an_import_does_not_wait_for_the_sizes",
    "attacks/identity/test_remotes.py",
    "attacks/identity/test_repository_identity.py::test_an_older_copy_is_imported_after_the_lost_repositorys_record_was_deleted",
    "contract/engine2/test_maintenance.py::test_a_prune_removes_what_its_dry_run_listed_and_undelete_works_until_the_next_compaction",
    "contract/mirror/test_engine_2.py",
    "contract/notifications/test_routes.py::test_a_failed_backup_and_its_recovery_are_announced_by_mail_and_webhook",
    "real/archives",
    "real/history/test_equal_to_the_engine.py::test_the_index_matches_the_engine_through_backups_changes_deletions_and_renames",
    "real/history/test_file_chunks.py::test_reads_during_delete_compact_create_and_prune_return_the_right_bytes_or_none",
    "real/maintenance/test_lanes.py",
    "real/maintenance/test_prune_agreement.py",
    "real/maintenance/test_wipe_in_parts.py",
    "real/mirror/test_backends.py",
    "real/mirror/test_engine2_remotes.py",
    "real/restore/test_kills.py",
    "real/services",
    "real/test_claimers.py",
    "web/test_administration.py::test_a_mirror_that_is_added_and_synced_is_a_copy_of_its_repository",
)
"""Tests that need minutes of real engines; only the campaign runs them, like tests marked `campaign`."""

LONGEST = (
    "real/test_documents.py::test_the_tour_and_the_other_documents_do_what_they_promise",
    "real/test_generated_clients.py",
    "real/test_setup.py::test_an_unreachable_package_index_is_reported",
    "real/schedules/test_kills.py",
    "attacks/test_hostile_archives_over_http.py",
    "chaos/test_partition.py::test_bad_networks_and_kills_lose_duplicate_and_falsify_nothing",
    "chaos/test_campaign.py::test_kills_at_random_instants_lose_duplicate_and_falsify_nothing",
    "real/scripts/test_on_agents.py",
    "real/schedules/test_tells_when_it_fails.py",
    "contract/test_secrets.py::test_secrets_do_not_leak_into_responses_files_or_processes",
    "real/test_notifications.py",
)
"""Tests that take a minute or more, which start first, one in each process: started last, one would keep a core
waiting.
"""

TWINS = {
    ON_ONE_STORE: ("postgresql", "sqlite"),
    WITH_ONE_SERIES: ("1.2", "1.4"),
    WITH_ONE_MAJOR: ("2", "1"),
}
"""For each list, the word of the tests that only the campaign runs, and the word of those that `make test` runs."""


# `make schema` runs it beside the others; loading its library takes each of their processes a second.
collect_ignore = ["contract/test_schema.py"] if "PYTEST_XDIST_WORKER" in os.environ else []


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    _mark(items)
    yield  # the others are deselected
    items[:] = _longest_first(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def pytest_collection_finish() -> None:
    """Thousands of tests and all modules stay until the end: the garbage collector need not go through them again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of the services' logs with a failed test: the files may be in memory, and gone when the run ends."""
    report = yield
    if report.failed and (known := witnesses.accounts()):
        report.sections.append(("processes of the test", known))
    return report


def _mark(items: list[pytest.Item]) -> None:
    known = {item.nodeid for item in items}
    for item in items:
        if _is_under(item, (*AT_LENGTH, *ON_ONE_MACHINE)) or any(
            _is_under(item, places) and _is_twin(item.nodeid, *words, known) for places, words in TWINS.items()
        ):
            item.add_marker(pytest.mark.campaign)


def _longest_first(items: list[pytest.Item], processes: int) -> list[pytest.Item]:
    """Order the tests so that each process finds its share of the long ones at the start of its slice of the list."""
    is_long = {place: [item for item in items if _is_under(item, (place,))] for place in LONGEST}
    long = [item for found in is_long.values() for item in found]
    known = set(long)
    others = [item for item in items if item not in known]
    ordered: list[pytest.Item] = []
    begun = 0
    for process in range(processes):
        # Like the scheduler: each process gets its part of what is left.
        mine = long[process::processes]
        count = max((len(items) - len(ordered)) // (processes - process) - len(mine), 0)
        ordered += mine + others[begun : begun + count]
        begun += count
    return ordered + others[begun:]


def _is_twin(name: str, word: str, other: str, known: set[str]) -> bool:
    """Whether the word is a parameter of the test, and the same test exists with the other word."""
    file, _, parameters = name.partition("[")
    twin, count = re.subn(rf"(?<![\w.]){re.escape(word)}(?![\w.])", other, parameters, count=1)
    return count == 1 and f"{file}[{twin}" in known


def _is_under(item: pytest.Item, places: tuple[str, ...]) -> bool:
    """Whether a test is in one of the folders or files, or is one of the listed tests."""
    return _under(places).match(item.nodeid) is not None


@functools.cache
def _under(places: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"tests/({'|'.join(places)})(/|::|\[|$)")
