"""`python -m tests.chaos`: the long campaign, or a single round replayed from its seed."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.campaign import campaign


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--rounds", "-n", type=int, default=100, help="how many rounds to play")
    parser.add_argument("--first-seed", type=int, default=None, help="the first round's seed; the time when not given")
    parser.add_argument("--seed", type=int, action="append", help="play the round of this seed only (may be repeated)")
    parser.add_argument("--times", type=int, default=1, help="with --seed: play it so many times")
    parser.add_argument("--folder", type=Path, default=None, help="where to work; a temporary folder when not given")
    arguments = parser.parse_args()
    first = int(time.time()) if arguments.first_seed is None else arguments.first_seed
    seeds = arguments.seed or list(range(first, first + arguments.rounds))
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="holdfast-chaos-"))
    failed = False
    for number in range(arguments.times if arguments.seed else 1):
        tally = campaign(seeds, folder / str(number), lambda line: print(line, flush=True))
        print(tally, flush=True)
        if tally.failed_seeds:
            print(f"seeds of rounds that went wrong: {tally.failed_seeds}", flush=True)
        failed = failed or bool(tally.findings.all())
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
