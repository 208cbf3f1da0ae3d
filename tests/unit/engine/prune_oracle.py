"""Print what an engine's own functions keep. Run by the engine's Python: one case per line in, the kept positions out.

A case is `[[seconds since 1970, newest first], {rule: count}, hours of keep_within or null, now]`.
"""

import json
import sys
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace


def main() -> None:
    try:
        from borg.archiver.prune_cmd import PRUNING_RULES, prune
    except ImportError:
        from borg.helpers import misc

        def decide(archives, counts, hours, now):
            because = {}
            if hours is not None:
                since = now - timedelta(hours=hours)
                because.update({one.id: "within" for one in archives if one.ts > since})
            for rule in misc.PRUNING_PATTERNS:
                if rule in counts:
                    misc.prune_split(archives, rule, counts[rule], because)
            return sorted(because)

    else:
        from borg.manifest import ArchiveInfo

        def decide(archives, counts, hours, now):
            counts = {"keep" if rule == "secondly" else rule: count for rule, count in counts.items()}
            known = [ArchiveInfo(str(one.id), one.id, one.ts) for one in archives]
            active = [rule for rule in PRUNING_RULES if rule.key in counts]
            found = {}
            for rule in active:
                before = frozenset(found)
                found.update(prune(known, rule, counts[rule.key], None, rule == active[-1], before))
            return sorted(archive.id for archive in found)

    for line in sys.stdin:
        seconds, counts, hours, now = json.loads(line)
        archives = [
            SimpleNamespace(id=number, ts=datetime.fromtimestamp(each, UTC)) for number, each in enumerate(seconds)
        ]
        print(json.dumps(decide(archives, counts, hours, datetime.fromtimestamp(now, UTC))))


main()
