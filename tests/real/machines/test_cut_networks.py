"""Operations on an ssh machine whose network is cut silently while they run: the record matches reality.

The first rounds belong to the suite. The others, with cuts that outlast the keep-alive of ssh and kills during a cut,
are played by `make campaign`; `HOLDFAST_SSH_CUTS` sets how many there are in all.
"""

import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.real.machines.cut_site import STRIKES, Site, cut_site
from tests.support import networks
from tests.support.networks import CABLE, PACKETS, WAYS
from tests.support.paced_engine import lines_by_run
from tests.support.running import Services
from tests.support.trees import look_at

ROUNDS = int(os.environ.get("HOLDFAST_SSH_CUTS", "25"))
KEEP_ALIVE_SECONDS = 70.0
"""After a silence of this length ssh gives up (`holdfast.execution.ssh`)."""
VERBS = {"check": "check", "prune": "prune", "restore there": "extract", "restore here": "export-tar"}
KINDS = ("backup", "late backup", *VERBS)

pytestmark = pytest.mark.skipif(networks.why_not() is not None, reason=f"no network to cut: {networks.why_not()}")


@dataclass(frozen=True)
class Round:
    kind: str
    cuts: tuple[tuple[float, str, float], ...]
    """For each cut: the pause before it, the way of cutting, and its duration."""
    strike: str | None = None

    @property
    def is_long(self) -> bool:
        return any(seconds > KEEP_ALIVE_SECONDS - 20 for _, _, seconds in self.cuts)


SUITE = Round("late backup", ((1.5, PACKETS, 3.0),))
RESTORE = Round("restore here", ((1.5, CABLE, 2.0),))


def drawn(seed: int) -> Round:
    chance = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    strike = chance.choice((None, *STRIKES))
    if chance.random() < 0.3:
        long = chance.uniform(KEEP_ALIVE_SECONDS - 10, KEEP_ALIVE_SECONDS + 25)
        return Round(kind, ((chance.uniform(0, 4), chance.choice(WAYS), long),), strike)
    count = chance.randint(1, 3)
    cuts = ((chance.uniform(0, 4 / count), chance.choice(WAYS), chance.uniform(0.3, 8)) for _ in range(count))
    return Round(kind, tuple(cuts), strike)


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    services = Services(tmp_path_factory.mktemp("cut"))
    yield services
    services.stop()


@pytest.fixture(scope="module")
def site(services: Services, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with cut_site(services.get(), tmp_path_factory.mktemp("site")) as site:
        for verb in ("check", "prune", "extract", "export-tar"):
            (site.engine.notes / f"slow-{verb}").write_text("2.5")
        yield site


def play(site: Site, played: Round, destination: Path) -> tuple[dict[str, Any], int]:
    """Return the operation as it ended, and how often the engine was started for it."""
    verb = VERBS.get(played.kind)
    before = site.engine.count_of(verb) if verb else 0
    operation_id = site.start(played.kind, destination)
    for number, (pause, way, seconds) in enumerate(played.cuts):
        time.sleep(pause)
        site.network.cut(way)
        try:
            if played.strike is not None and number == 0:
                site.strike(operation_id, played.strike)
            time.sleep(seconds)
        finally:
            site.network.heal()
    ended = site.running.admin.wait_for_end(operation_id)
    runs = site.engine.count_of(verb) - before if verb else len(site.backups_begun(operation_id))
    return ended, runs


def look_into(site: Site, played: Round, ended: dict[str, Any], runs: int, destination: Path) -> None:
    """Compare the record of an operation with reality."""
    told = (played, ended["status"], ended["error_key"], ended["error_message"], ended["attempt"])
    assert runs <= ended["attempt"], (told, runs, "no run that the record does not know of")
    if ended["status"] == "completed":
        assert runs >= 1, told
    else:
        assert ended["status"] == "failed", told
        assert may_fail(played, ended, runs), (told, runs)
    if "backup" in played.kind:
        made = site.archives_of(ended["id"])
        assert made == (ended["status"] == "completed"), (told, made)
        look_at_log(site, ended)
    elif "restore" in played.kind:
        look_at_restored(site, ended, destination)


def may_fail(played: Round, ended: dict[str, Any], runs: int) -> bool:
    """A cut may not fail an operation, unless that had not begun there, was streamed, or its engine was killed."""
    if ended["error_key"] == "engine.unreachable":
        return runs == 0 or (played.kind == "restore here" and (played.is_long or played.strike == "session"))
    return (
        ended["error_key"] == "operations.interrupted"
        and "restore" in played.kind
        and played.strike in ("engine there", "shim there", "near side")
    )


def look_at_log(site: Site, ended: dict[str, Any]) -> None:
    """No line of an engine is missing or repeated; the log of the last run is complete."""
    told = lines_by_run(site.running.admin.log_lines(ended["id"]))
    for run, numbers in told.items():
        assert numbers == list(range(1, len(numbers) + 1)), (run, numbers)
    if ended["status"] == "completed" and ended["result"]["return_code"] is not None:
        last = site.backups_begun(ended["id"])[-1]
        assert len(told[last]) == site.engine.said(last)


def look_at_restored(site: Site, ended: dict[str, Any], destination: Path) -> None:
    source = site.engine.source("quick")
    if ended["status"] == "completed":
        found, wanted = look_at(destination / str(source).lstrip("/")), look_at(source)
        assert {path: seen.content for path, seen in found.items()} == {
            path: seen.content for path, seen in wanted.items()
        }
        assert not list(destination.rglob(".holdfast-restore-*"))
    else:
        assert not [path for path in destination.rglob("file-*") if ".holdfast-restore-" not in str(path)]


def name_of(played: Round) -> str:
    return f"{played.kind} {played.cuts[0][1]}".replace(" ", "-")


@pytest.mark.parametrize(
    "played",
    [
        pytest.param(SUITE, id=name_of(SUITE)),
        pytest.param(RESTORE, id=name_of(RESTORE), marks=pytest.mark.campaign),
        *(pytest.param(drawn(seed), id=f"seed-{seed}", marks=pytest.mark.campaign) for seed in range(ROUNDS)),
    ],
)
def test_the_record_of_an_operation_over_a_cut_network_matches_its_real_outcome(
    site: Site, tmp_path: Path, played: Round
) -> None:
    destination = tmp_path / "restored"
    site.have_archives()
    ended, runs = play(site, played, destination)

    look_into(site, played, ended, runs, destination)
    site.wait_until_quiet(120)
    assert site.recorded_archives() == {name for name, _ in site.archives()}
    assert site.engine.overlaps() == []
    site.back_up()
