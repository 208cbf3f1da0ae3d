"""The `backup-agent` command line."""

import sys
from collections.abc import Sequence

from backup_agent.lazy_loading import RARELY_USED, load_later

load_later(*RARELY_USED)

from backup_agent.commands import command  # noqa: E402
from backup_agent.places import find_places  # noqa: E402
from backup_agent.problems import Problem  # noqa: E402


def main(arguments: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        if words == ["run"]:  # the long-running command does not load the option parser
            return command("run").run(find_places(), None)
        from backup_agent.arguments import parsed

        asked = parsed(words)
        code: int = asked.run(find_places(), asked)
    except Problem as problem:
        print(f"backup-agent: {problem}", file=sys.stderr)
        return problem.exit_code
    except PermissionError as error:
        print(f"backup-agent: {error.filename}: {error.strerror}; are you the right user?", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"backup-agent: {error.filename or ''}: {error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return code
