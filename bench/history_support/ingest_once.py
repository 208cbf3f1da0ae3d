"""Index one archive in a separate process, so that its time and memory can be measured. Arguments and result are
JSON.
"""

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

from holdfast.history.chunks.metadata_chunks import EngineChunks
from holdfast.history.index import HistoryIndex
from holdfast.history.listing import ENVIRONMENT, Listing, listing_arguments
from holdfast.history.sqlite import SqliteStore


def main() -> None:
    wanted = json.loads(sys.argv[1])
    began, used = time.monotonic(), processor_seconds()  # the service started and imported everything long before
    file = Path(wanted["index"])
    index = HistoryIndex(SqliteStore(file) if file.exists() else SqliteStore.create(file))
    program, environment = Path(wanted["program"]), {**os.environ, **ENVIRONMENT}
    if wanted["route"] == "chunks":
        with EngineChunks(program, wanted["repository"], environment=environment, niceness=0) as chunks:
            result = index.ingest_chunks(wanted["engine_id"], chunks, series="bench")
    else:
        command = [str(program), *listing_arguments(wanted["repository"], wanted["name"])]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            listing = Listing(process.stdout, process.wait)
            result = index.ingest_listing(wanted["engine_id"], listing, base=wanted["base"])
    index.close()
    cost = {"wall": time.monotonic() - began, "cpu": processor_seconds() - used}
    print(json.dumps({"entries": result.entries, "read": result.records_read, **cost}))


def processor_seconds() -> float:
    """Processor time of this process and of the engine processes that it started and waited for."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


if __name__ == "__main__":
    main()
