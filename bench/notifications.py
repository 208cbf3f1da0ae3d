"""The time from an outbox row to the arrival of its webhook, at 100 events a second, and what it costs the writer."""

import time
from pathlib import Path
from statistics import median
from typing import Any

from bench.report import Bench, Measurement, Options
from bench.running import folder, serving, settings_for, signed_in
from holdfast.kit import clock
from holdfast.operations import outbox
from holdfast.storage.session import Database
from tests.support.receivers import web_receiver

LIMIT_SECONDS = 2.0
EVENTS_PER_SECOND = 100


def run(options: Options) -> list[Measurement]:
    seconds = 5 if options.quick else 30
    with (
        folder() as place,
        settings_for(place / "data", options.store) as settings,
        serving(settings) as service,
        web_receiver() as receiver,
    ):
        admin = signed_in(service)
        body = {"name": "bench", "kind": "webhook", "options": {"url": receiver.url}}
        admin.post("/api/notifications/destinations", json=body).raise_for_status()
        for rule in admin.get("/api/notifications/rules").json()["rules"]:
            admin.delete(f"/api/notifications/rules/{rule['id']}")
        every = {"name": "bench", "send": "every", "least_severity": "info", "group_seconds": 1}
        admin.post("/api/notifications/rules", json=every).raise_for_status()
        arrived: dict[str, float] = {}
        counted: dict[str, int] = {}
        """By message: a full one lists its first 50 events, which have waited longest, and counts the rest."""

        def note(got: Any) -> tuple[int, dict[str, str]]:
            now = time.time()
            arrived.update({item["title"]: now for item in got.json["data"]["items"]})
            counted[got.headers["webhook-id"]] = got.json["data"]["more"]
            return 204, {}

        receiver.answer = note
        sent, costs = _write(settings.database_url or f"sqlite:///{Path(settings.data_dir) / 'holdfast.db'}", seconds)
        end = time.monotonic() + 60
        while len(arrived) + sum(counted.values()) < len(sent) and time.monotonic() < end:
            time.sleep(0.05)
    missing = len(sent) - len(arrived) - sum(counted.values())
    delays = sorted(arrived[title] - at for title, at in sent.items() if title in arrived)
    return [
        Measurement("notifications: events that did not arrive", missing, "events", 0),
        Measurement("notifications: outbox to webhook, median", median(delays), "s", None),
        Measurement(
            "notifications: outbox to webhook, 95th percentile", delays[int(len(delays) * 0.95)], "s", LIMIT_SECONDS
        ),
        Measurement("notifications: commit of an event meanwhile, median", median(costs) * 1000, "ms", None),
    ]


def _write(url: str, seconds: int) -> tuple[dict[str, float], list[float]]:
    """Write missed runs at the given rate; return when each was written, and what each commit took."""
    database = Database(url)
    sent: dict[str, float] = {}
    costs: list[float] = []
    begin = time.monotonic()
    for number in range(seconds * EVENTS_PER_SECOND):
        time.sleep(max(0.0, begin + number / EVENTS_PER_SECOND - time.monotonic()))
        name = f"s{number}"
        payload = {
            "id": number,
            "schedule_id": number,
            "schedule_name": name,
            "outcome": "missed",
            "reason": "service_down",
            "due_at": clock.now().isoformat(),
        }
        before = time.monotonic()
        with database.writing() as session:
            outbox.publish_for_admins(session, "schedule.run", [payload])
        costs.append(time.monotonic() - before)
        sent[f"Run of schedule {name} was missed"] = time.time()
    database.dispose()
    return sent, costs


BENCH = Bench("outbox to sent webhook: p95 at most 2 s at 100 events a second", run)
