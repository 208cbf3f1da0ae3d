"""Reading a long log at its end must cost the same as reading it at its beginning."""

from collections.abc import Callable
from pathlib import Path

from sqlalchemy import update

from bench.filling import fill, prepare
from bench.report import Bench, Measurement, Options
from bench.running import folder, pid_of, serving, settings_for, signed_in
from bench.timing import measure, milliseconds, own_processor_seconds, processor_seconds
from holdfast.operations import logs
from holdfast.operations.logs import LogWriter
from holdfast.operations.models import Operation
from holdfast.storage.session import Database
from tests.support.service import Client

MOST_TIMES_BEGINNING = 1.2
ROUNDS = 5
PAGE = 500
LOG_FILE = "2026-01/long.log"
SOME_OPERATIONS = 100


def run(options: Options) -> list[Measurement]:
    lines = options.rows()
    with folder() as place, settings_for(place / "data", options.store) as settings:
        database = prepare(settings)
        operation_id = fill(database, SOME_OPERATIONS).newest_backup
        log = settings.logs_dir / LOG_FILE
        write_log(log, lines)
        name_log(database, operation_id)
        database.dispose()
        told = compare("read_page", lambda offset: lambda: logs.read_page(log, offset, PAGE), lines, options)
        with serving(settings) as service:
            client, clock = signed_in(service), processor_seconds(pid_of(service))
            for path in (f"/api/operations/{operation_id}/logs", f"/api/backup/logs/{operation_id}/stream"):
                told += compare(path.replace(str(operation_id), "…"), asking(client, path), lines, options, clock)
    return told


def compare(
    what: str,
    reading_at: Callable[[int], Callable[[], object]],
    lines: int,
    options: Options,
    clock: Callable[[], float] = own_processor_seconds,
) -> list[Measurement]:
    """Read a full page at the beginning, in the middle and at the end, in turn. The best of several rounds counts."""
    calls = [reading_at(offset) for offset in (0, lines // 2, lines - PAGE)]
    rounds = [measure(calls, options.repeats(100), [clock] * len(calls)) for _ in range(ROUNDS)]
    first, _, last = (min(milliseconds(samples[which].median) for samples in rounds) for which in range(3))
    first_cpu, _, last_cpu = (
        min(milliseconds(samples[which].cpu_per_call) for samples in rounds) for which in range(3)
    )
    note = f"wall {first:.2f} → {last:.2f} ms, processor {first_cpu:.2f} → {last_cpu:.2f} ms, page of {PAGE}"
    middle = min(samples[1].median / samples[0].median for samples in rounds)
    end = min(samples[2].median / samples[0].median for samples in rounds)
    return [
        Measurement(f"{what}: end of {lines:,} lines / beginning", end, "x", MOST_TIMES_BEGINNING, note),
        Measurement(f"{what}: middle / beginning", middle, "x", MOST_TIMES_BEGINNING),
    ]


def asking(client: Client, path: str) -> Callable[[int], Callable[[], object]]:
    def reading_at(offset: int) -> Callable[[], object]:
        def read() -> object:
            answer = client.get(path, params={"offset": offset, "limit": PAGE})
            assert answer.status_code == 200, answer.text
            assert answer.json()["total_lines"] == offset + PAGE
            return answer

        return read

    return reading_at


def write_log(path: Path, lines: int) -> None:
    writer = LogWriter(path, 0)
    for first in range(0, lines, 10_000):
        writer.write(
            f"A /home/someone/documents/number {number:9} of many.txt" for number in range(first, first + 10_000)
        )
    writer.close()


def name_log(database: Database, operation_id: int) -> None:
    with database.writing() as session:
        session.execute(update(Operation).where(Operation.id == operation_id).values(log_file=LOG_FILE))


BENCH = Bench("the log stream at the end of a 1,000,000-line log: ≤ 1.2 x the cost at its beginning", run)
