"""`make demo` fills a service with a year of backups and leaves nothing behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.engines import ENGINES, ROOT


@pytest.mark.campaign
def test_the_demo_fills_a_service_and_leaves_nothing_behind(tmp_path: Path) -> None:
    environment = {**os.environ, "DEMO_EXIT": "1", "TMPDIR": str(tmp_path), "HOLDFAST_BORG1": str(ENGINES["1.4"])}
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "demo.py")], env=environment, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    for line in (
        "Backup of database, whose folder is not there: failed",
        "Backup of workshop-pc, by its agent: completed",
        "Restore check of photos: completed",
        "Ready after",
    ):
        assert line in done.stdout
    assert not done.stderr
    assert list(tmp_path.iterdir()) == []
