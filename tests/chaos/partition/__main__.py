"""`python -m tests.chaos.partition`: the long campaign of bad networks, or a single round replayed from its seed."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.partition.campaign import campaign
from tests.chaos.partition.plan import LONG, SHORT


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.partition", description=__doc__)
    parser.add_argument("--rounds", "-n", type=int, default=100, help="how many rounds to play")
    parser.add_argument("--first-seed", type=int, default=None, help="the first round's seed; the time when not given")
    parser.add_argument("--seed", type=int, action="append", help="play the round of this seed only (may be repeated)")
    parser.add_argument("--folder", type=Path, default=None, help="where to work; a temporary folder when not given")
    parser.add_argument("--times", type=int, default=1, help="with --seed: play it so many times")
    parser.add_argument("--worlds", type=int, default=4, help="how many services to play on side by side")
    parser.add_argument("--short", action="store_true", help="rounds of one job, as the tests play them")
    arguments = parser.parse_args()
    first = int(time.time()) if arguments.first_seed is None else arguments.first_seed
    seeds = (arguments.seed or []) * arguments.times or list(range(first, first + arguments.rounds))
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="holdfast-partition-"))
    size = SHORT if arguments.short else LONG
    tally = campaign(seeds, folder, lambda line: print(line, flush=True), size=size, worlds=arguments.worlds)
    print(tally, flush=True)
    if tally.failed_seeds:
        print(f"seeds of rounds that went wrong: {tally.failed_seeds}", flush=True)
    return 1 if tally.findings else 0


if __name__ == "__main__":
    sys.exit(main())
