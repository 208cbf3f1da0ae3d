"""`python -m bench [NAME …]`: run benches and report whether the promised numbers hold. The exit code is 1 if one does
not.
"""

import argparse
import importlib
import pkgutil
import sys
import time
from typing import Any

import psutil

import bench
from bench.report import Bench, Measurement, Options, failed, table
from holdfast.entry import quick_start


def find_benches() -> dict[str, Bench]:
    """All modules of this package that have a `BENCH`, by name."""
    names = sorted(module.name for module in pkgutil.iter_modules(bench.__path__) if not module.name.startswith("_"))
    modules = {name: importlib.import_module(f"bench.{name}") for name in names}
    return {name: module.BENCH for name, module in modules.items() if isinstance(getattr(module, "BENCH", None), Bench)}


def main() -> int:
    benches = find_benches()
    arguments = _read_arguments(list(benches))
    if arguments.list:
        for name, found in benches.items():
            print(f"{name:20} {found.promise}")
        return 0
    options = Options(quick=arguments.quick, store=arguments.store, only=arguments.only)
    quick_start.end()  # benches that run parts of the service in this process collect garbage as it does
    all_of_them: list[Measurement] = []
    for name in arguments.names or benches:
        print(f"\n{name}: {benches[name].promise}", flush=True)
        began, before = time.monotonic(), psutil.cpu_times()
        measurements = benches[name].run(options)
        all_of_them += measurements
        took, taken = time.monotonic() - began, share_taken_by_the_host(before, psutil.cpu_times())
        print(f"{table(measurements)}\n({took:.0f} s; the host took {taken:.0%} of the machine's time)", flush=True)
    broken = failed(all_of_them)
    for measurement in broken:
        print(f"FAIL {measurement.what}: {measurement.value:.2f} {measurement.unit}, limit {measurement.limit}")
    return 1 if broken else 0


def share_taken_by_the_host(before: Any, after: Any) -> float:
    """Share of a virtual machine's time that its host gave to others; if it is large, a number means little."""
    passed = sum(after) - sum(before)
    return (after.steal - before.steal) / passed if passed > 0 else 0.0


def _read_arguments(names: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*names, []], metavar="NAME", help="benches to run (default: all)")
    parser.add_argument("--list", action="store_true", help="say what there is")
    parser.add_argument("--quick", action="store_true", help="smaller stores and fewer repeats: a look, not a verdict")
    parser.add_argument("--store", choices=["sqlite", "postgresql"], default="sqlite", help="the store to measure on")
    parser.add_argument(
        "--only", default="", metavar="PART", help="one part alone, of a bench that has parts: a sort of `crowd`"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
