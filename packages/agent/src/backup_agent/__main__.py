"""`python -m backup_agent` is `backup-agent`."""

import sys

from backup_agent.cli import main

if __name__ == "__main__":
    sys.exit(main())
