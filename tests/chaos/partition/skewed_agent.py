"""`backup-agent` on a machine whose clock is wrong by the seconds in SKEW."""

import os
import sys
from datetime import UTC, datetime, timedelta

from backup_agent import machine

machine.moment = lambda: datetime.now(UTC) + timedelta(seconds=float(os.environ["SKEW"]))

from backup_agent.cli import main  # noqa: E402 -- after the clock is wrong

sys.exit(main())
