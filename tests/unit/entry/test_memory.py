"""How much freed memory the service keeps."""

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


def test_memory_is_released_after_a_burst_of_logins() -> None:
    """Each of the eight threads needs 19 MB to hash a password."""
    told = subprocess.run([sys.executable, "-c", SCRIPT], check=True, capture_output=True, text=True).stdout
    assert float(told) < MOST_MEGABYTES
