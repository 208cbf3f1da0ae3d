"""Show the configuration, the last heartbeat, the engines and the current jobs; sends no request."""

import json
from argparse import ArgumentParser, Namespace
from typing import Any

from backup_agent import AGENT_VERSION, config, private_files
from backup_agent.capabilities import CAPABILITIES
from backup_agent.commands.locking import is_running
from backup_agent.engines import Engines
from backup_agent.places import Places
from backup_agent.problems import NotRegistered
from backup_agent.restore_to import shown


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="as one JSON object")


def run(places: Places, arguments: Namespace) -> int:
    facts = status(places)
    print(json.dumps(facts, indent=2) if arguments.json else _text(facts))
    return 0 if facts["registered"] else NotRegistered.exit_code


def status(places: Places) -> dict[str, Any]:
    try:
        kept = config.with_environment(config.load(places))
    except NotRegistered:
        kept = None
    seen = private_files.read_json(places.status_file) or {}
    engines = Engines(places, kept.engines if kept else {})
    return {
        "registered": kept is not None,
        "agent_version": AGENT_VERSION,
        "config_file": str(places.config_file),
        "state_folder": str(places.state),
        "server_url": kept.server_url if kept else None,
        "agent_id": kept.agent_id if kept else None,
        "name": kept.name if kept else None,
        "ca_file": kept.ca_file if kept else None,
        "max_jobs": kept.max_jobs if kept else None,
        "restore_to": list(kept.restore_to) if kept and kept.restore_to is not None else None,
        "running": is_running(places),
        "last_heartbeat_at": seen.get("last_heartbeat_at"),
        "clock_skew_seconds": seen.get("clock_skew_seconds"),
        "last_error": seen.get("last_error"),
        "engine_versions": [
            {"major": each.major, "version": each.version, "path": each.path} for each in engines.versions()
        ],
        "capabilities": list(CAPABILITIES),
        "job_ids": _job_ids(places),
    }


def _job_ids(places: Places) -> list[int]:
    folders = places.jobs.iterdir() if places.jobs.exists() else ()
    return sorted(int(folder.name) for folder in folders if folder.name.isdigit())


def _text(facts: dict[str, Any]) -> str:
    engines = ", ".join(f"{each['version']} ({each['path']})" for each in facts["engine_versions"])
    skew = facts["clock_skew_seconds"]
    rows = {
        "Registered": "yes" if facts["registered"] else "no",
        "Configuration": facts["config_file"],
        "State": facts["state_folder"],
        "Service": facts["server_url"],
        "Agent": f"{facts['name']} ({facts['agent_id']})" if facts["registered"] else None,
        "Restores to": shown(facts["restore_to"]) if facts["registered"] else None,
        "Running": "yes" if facts["running"] else "no",
        "Last heartbeat": facts["last_heartbeat_at"] or "never",
        "Clock": f"{skew:+.1f} s to the service" if skew is not None else None,
        "Last error": facts["last_error"],
        "BorgBackup": engines or "none found",
        "Current jobs": ", ".join(map(str, facts["job_ids"])) or "none",
        "Version": facts["agent_version"],
    }
    return "\n".join(f"{name + ':':16}{value}" for name, value in rows.items() if value is not None)
