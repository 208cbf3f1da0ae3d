"""File history at scale: `python -m bench.history [--files N --archives M --real-files N]`.

Synthetic archives measure only the index: size, ingest, and queries while another ingest runs. A real repository
measures both ways of reading an archive against the engine's own listing in the same run. Ratios compare processor
time, which a busy machine distorts less than wall time; both are shown.
"""

import argparse
import multiprocessing
import os
import random
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.history_support.real import Cost, RealArchives
from bench.history_support.synthetic import WORDS, SyntheticArchives
from bench.report import Bench, Measurement, Options, failed, table
from bench.timing import percentile
from holdfast.entry import quick_start
from holdfast.history.answers import BrowseSort
from holdfast.history.index import HistoryIndex
from holdfast.history.sqlite import SqliteStore

MEGABYTE = 1_000_000
PEAK_LIMIT_MEGABYTES = 500
SEARCH_MILLISECONDS = 50
READ_MILLISECONDS = 10
WEIGHED_MILLISECONDS = 50
SLOWEST_READ_MILLISECONDS = 100
FEWEST_FILES_TO_JUDGE = 200_000  # with fewer, starting the engine dominates the cost on both sides


@dataclass(frozen=True)
class Sizes:
    files: int
    archives: int
    real_files: int
    questions: int
    program: Path | None


def run(options: Options) -> list[Measurement]:
    if options.quick:
        sizes = Sizes(20_000, 10, 2_000, 100, find_engine())
    else:
        sizes = Sizes(1_000_000, 100, 50_000, 400, find_engine())
    return measure(sizes)


BENCH = Bench("every file of every archive in milliseconds; indexing costs what changed", run)


def measure(sizes: Sizes) -> list[Measurement]:
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-history-") as folder:
        found = list(synthetic(Path(folder), sizes)) if sizes.files else []
        if sizes.real_files and sizes.program is not None:
            found += real(Path(folder), sizes, sizes.program)
    return found


def find_engine() -> Path | None:
    built = Path(__file__).resolve().parents[1] / ".engines" / "borg-1.4" / "bin" / "borg"
    found = str(built) if built.exists() else shutil.which("borg")
    return Path(found) if found else None


# --- synthetic archives


def synthetic(folder: Path, sizes: Sizes) -> Iterator[Measurement]:
    file = folder / "synthetic.db"
    index = HistoryIndex(SqliteStore.create(file))
    source = SyntheticArchives(sizes.files)
    first, later = ingest_all(index, source, sizes.archives)
    yield Measurement("first archive into an empty index, processor time", first, "s", note=f"{source.files:,} files")
    yield Measurement(
        "a day later, median processor time", percentile(later, 50), "s", note="writing out chunks included"
    )
    stats = index.stats()
    yield Measurement("size of the index", stats.bytes / MEGABYTE, "MB", note=f"{stats.versions:,} versions")
    yield Measurement("bytes on disk per version", stats.bytes / stats.versions, "B")
    yield Measurement("bytes on disk per file of an archive", stats.bytes / stats.entries, "B")
    quick_start.end()  # no query should wait while Python scans the synthetic file system, which no service has
    with another_ingest(file, source, sizes.archives) as is_running:
        asked = Questions(index, source, sizes)
        yield from asked.measure(is_running)
    began = time.process_time()
    removed = [f"day{number}" for number in range(0, sizes.archives, 2)]
    index.remove(removed)
    yield Measurement("removing half of the archives, each", (time.process_time() - began) / len(removed) * 1000, "ms")
    began = time.process_time()
    swept = index.sweep()
    yield Measurement(
        "sweeping after it, processor time", time.process_time() - began, "s", note=f"{swept.versions:,} versions"
    )
    index.close()


def ingest_all(index: HistoryIndex, source: SyntheticArchives, archives: int) -> tuple[float, list[float]]:
    costs = []
    for number in range(archives):
        source.archive(f"day{number}")
        began = time.process_time()
        index.ingest_chunks(f"day{number}", source, series="series")
        costs.append(time.process_time() - began)
        source.a_day_passes()
        if sys.stderr.isatty():
            print(f"\r{number + 1} of {archives} archives", end="", file=sys.stderr)
    return costs[0], costs[1:] or costs


@contextmanager
def another_ingest(file: Path, source: SyntheticArchives, archives: int) -> Iterator[Callable[[], bool]]:
    """Keep ingesting new archives in another process while the body runs."""

    def ingest_forever() -> None:
        os.nice(10)  # as the service runs it
        index = HistoryIndex(SqliteStore(file))
        number = archives
        while True:
            source.archive(f"day{number}")
            index.ingest_chunks(f"day{number}", source, series=f"other{number % 2}")
            number += 1
            source.a_day_passes()

    process = multiprocessing.get_context("fork").Process(target=ingest_forever, daemon=True)
    process.start()
    try:
        yield process.is_alive
    finally:
        process.kill()
        process.join()


class Questions:
    def __init__(self, index: HistoryIndex, source: SyntheticArchives, sizes: Sizes) -> None:
        self._index = index
        self._source = source
        self._sizes = sizes
        self._rng = random.Random(5)
        self._slowest = 0.0

    def measure(self, is_running: Callable[[], bool]) -> Iterator[Measurement]:
        beside = "p50 {:.1f}, max {:.1f} ms, while another archive is ingested"
        for what, limit, ask in (
            ("search, first 50 paths with their archives, p95", SEARCH_MILLISECONDS, self._search),
            ("history of a path, p95", READ_MILLISECONDS, self._history),
            ("a directory of an archive, p95", READ_MILLISECONDS, self._browse),
            ("a directory, compared with the day before, p95", WEIGHED_MILLISECONDS, self._compared),
            ("a directory of any archive with what its folders hold, p95", WEIGHED_MILLISECONDS, self._weighed),
            ("first page of changes against the day before, p95", READ_MILLISECONDS, self._changes),
            ("changes against the day before by folder, p95", WEIGHED_MILLISECONDS, self._groups),
            ("lanes of a folder, p95", WEIGHED_MILLISECONDS, self._lanes),
            ("first page of changes between any two archives, p95", None, self._far_changes),
        ):
            times = [self._timed(ask) for _ in range(self._sizes.questions)]
            assert is_running(), "the other ingest ended"
            note = beside.format(percentile(times, 50), max(times))
            yield Measurement(what, percentile(times, 95), "ms", limit, note)
        yield Measurement("slowest of these reads", self._slowest, "ms", SLOWEST_READ_MILLISECONDS)

    def _timed(self, ask: Callable[[], object]) -> float:
        began = time.perf_counter()
        ask()
        took = (time.perf_counter() - began) * 1000
        self._slowest = max(self._slowest, took)
        return took

    def _search(self) -> object:
        word, other = self._rng.choice(WORDS), self._rng.choice(WORDS)
        forms = (
            word,
            f"{word}_{other}",
            other[:3],
            f"{word[:4]}_",
            f"{other}-{self._rng.randrange(256):x}",
            f"{word}/{other[:3]}",
        )
        return self._index.search(self._rng.choice(forms), limit=50)

    def _history(self) -> object:
        directory = self._rng.choice(self._source.directories)
        return self._index.path_history(f"{directory.path}/{self._rng.choice(directory.names)}".encode())

    def _browse(self) -> object:
        path = self._rng.choice(self._source.directories).path.encode()
        return self._index.browse(self._archive(), self._rng.choice([path, path.rpartition(b"/")[0]]))

    def _compared(self) -> object:
        number = self._rng.randrange(1, self._sizes.archives)
        return self._index.browse(f"day{number}", self._some_folder(), against=f"day{number - 1}")

    def _weighed(self) -> object:
        sort = self._rng.choice(list(BrowseSort))
        return self._index.browse(self._archive(), self._some_folder(), sizes=True, sort=sort)

    def _some_folder(self) -> bytes:
        parts = self._rng.choice(self._source.directories).path.encode().split(b"/")
        return b"/".join(parts[: self._rng.randrange(len(parts) + 1)])

    def _lanes(self) -> object:
        return self._index.folder_timeline(self._some_folder())

    def _groups(self) -> object:
        number = self._rng.randrange(1, self._sizes.archives)
        days = f"day{number - 1}", f"day{number}"
        return self._index.change_groups(*days, folder=self._some_folder(), limit=100)

    def _changes(self) -> object:
        number = self._rng.randrange(1, self._sizes.archives)
        return self._index.changes(f"day{number - 1}", f"day{number}", limit=100)

    def _far_changes(self) -> object:
        return self._index.changes(self._archive(), self._archive(), limit=100)

    def _archive(self) -> str:
        return f"day{self._rng.randrange(self._sizes.archives)}"


# --- a real repository


def real(folder: Path, sizes: Sizes, program: Path) -> Iterator[Measurement]:
    archives = RealArchives(program, folder, sizes.real_files)
    archives.build()
    chunks, listing = folder / "chunks.db", folder / "listing.db"
    beside = f"{sizes.real_files:,} real files"
    first = archives.ingest(chunks, "base", "chunks", None)
    listed = archives.list_json_lines("base")
    yield ratio("first archive by chunks", first, listed, None, beside)
    yield peak("first archive by chunks", first)
    archives.ingest(listing, "base", "listing", None)
    judged = sizes.real_files >= FEWEST_FILES_TO_JUDGE
    for name, limit in (("same", 0.05), ("clustered", 0.05), ("random", 0.2)):
        ours, theirs = archives.ingest(chunks, name, "chunks", None), archives.list_json_lines(name)
        yield ratio(f"{name} archive by chunks", ours, theirs, limit if judged else None, beside)
        yield peak(f"{name} archive by chunks", ours)
        fallback, again = archives.ingest(listing, name, "listing", "base"), archives.list_json_lines(name)
        yield ratio(f"{name} archive by the listing", fallback, again, 1.3 if judged else None, beside)
        yield peak(f"{name} archive by the listing", fallback)


def ratio(what: str, ours: Cost, theirs: Cost, limit: float | None, beside: str) -> Measurement:
    note = (
        f"processor {ours.cpu:.2f} s against {theirs.cpu:.2f} s, wall {ours.wall:.2f} s against {theirs.wall:.2f} s"
        f" = {theirs.cpu / ours.cpu:.1f} times faster; {beside}"
    )
    return Measurement(f"{what} / borg list --json-lines", ours.cpu / theirs.cpu, "of its cost", limit, note)


def peak(what: str, cost: Cost) -> Measurement:
    return Measurement(f"{what}, peak memory", cost.peak_bytes / MEGABYTE, "MB", PEAK_LIMIT_MEGABYTES)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.history")
    parser.add_argument("--files", type=int, default=1_000_000, help="made-up files per archive; 0 for none")
    parser.add_argument("--archives", type=int, default=100, help="made-up archives")
    parser.add_argument("--real-files", type=int, default=50_000, help="files of the real repository; 0 for none")
    parser.add_argument("--questions", type=int, default=400, help="how many of each kind are asked")
    parser.add_argument("--engine", type=Path, default=find_engine(), help="the borg program")
    given = parser.parse_args()
    found = measure(Sizes(given.files, given.archives, given.real_files, given.questions, given.engine))
    print(table(found))
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    print(f"(this process, the made-up file system included, took at most {own:,.0f} MB)")
    return 1 if failed(found) else 0


if __name__ == "__main__":
    raise SystemExit(main())
