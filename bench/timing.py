"""Measure wall time and processor time so that a noisy machine misleads as little as possible."""

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil


@dataclass(slots=True)
class Sample:
    """Wall times of single calls in seconds, and the total processor time of all of them."""

    wall: list[float] = field(default_factory=list)
    cpu: float = 0.0

    @property
    def median(self) -> float:
        return statistics.median(self.wall)

    @property
    def p99(self) -> float:
        return percentile(self.wall, 99)

    @property
    def cpu_per_call(self) -> float:
        return self.cpu / len(self.wall)


def percentile(values: Sequence[float], percent: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def milliseconds(seconds: float) -> float:
    return seconds * 1000


def measure(calls: Sequence[Callable[[], object]], repeats: int, cpu: Sequence[Callable[[], float]]) -> list[Sample]:
    """Time several calls in turn, so that a slow moment of the machine affects all of them.

    `cpu[k]` returns the processor seconds used so far by the process that does the work of `calls[k]`.
    """
    samples = [Sample() for _ in calls]
    for call in calls:
        call()
    for _ in range(repeats):
        for call, sample, used in zip(calls, samples, cpu, strict=True):
            before, began = used(), time.perf_counter()
            call()
            sample.wall.append(time.perf_counter() - began)
            sample.cpu += used() - before
    return samples


def processor_seconds(pid: int) -> Callable[[], float]:
    """A clock of the processor time of all threads of a process, in nanoseconds if the kernel reports them."""
    tasks = Path(f"/proc/{pid}/task")

    def from_scheduler() -> float:
        return sum(int(text.split()[0]) for text in _schedule_statistics(tasks)) / 1e9

    def from_process() -> float:
        times = psutil.Process(pid).cpu_times()
        return times.user + times.system

    return from_scheduler if any(_schedule_statistics(tasks)) else from_process


def own_processor_seconds() -> float:
    return time.process_time()


def _schedule_statistics(tasks: Path) -> Iterable[str]:
    for task in tasks.iterdir():
        try:
            yield (task / "schedstat").read_text()
        except OSError:
            continue
