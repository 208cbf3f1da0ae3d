"""What a service keeps of memory that is free again."""

import subprocess
import sys

HASHES = 40
MOST_MEGABYTES = 12.0
SCRIPT = f"""
import sys
from concurrent.futures import ThreadPoolExecutor
from holdfast.entry import quick_start
quick_start.give_memory_back()
from holdfast.access.passwords import hash_password

def resident():
    pages = int(open("/proc/self/statm").read().split()[1])
    return pages * 4096 / 1e6

before = resident()
with ThreadPoolExecutor(8) as threads:
    list(threads.map(hash_password, ["a password"] * {HASHES}))
    print(resident() - before)
"""


def test_a_storm_of_logins_leaves_no_memory_behind() -> None:
    """Each of eight threads hashes with 19 MB."""
    told = subprocess.run([sys.executable, "-c", SCRIPT], check=True, capture_output=True, text=True).stdout
    assert float(told) < MOST_MEGABYTES
