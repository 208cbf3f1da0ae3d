"""Ask the service to disable this agent, and remove the local credential."""

from argparse import ArgumentParser, Namespace

from backup_agent import config
from backup_agent.client import Client, NoAnswer, NotAllowed, Refusal
from backup_agent.commands.locking import is_running
from backup_agent.places import Places
from backup_agent.problems import AlreadyRunning, Problem, ServiceUnreachable
from backup_agent.runtime_api import RuntimeApi


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--force",
        action="store_true",
        help="remove the credential despite unfinished jobs or an unreachable service",
    )


def run(places: Places, arguments: Namespace) -> int:
    kept = config.load(places)
    if is_running(places):
        raise AlreadyRunning("The agent is running; stop it first (systemctl stop backup-agent).")
    held = sorted(folder.name for folder in places.jobs.iterdir()) if places.jobs.exists() else []
    if held and not arguments.force:
        raise Problem(f"Jobs are unfinished ({', '.join(held)}); run `backup-agent once`, or add --force.")
    _disable(RuntimeApi(Client(kept.server_url, kept.credential, kept.ca_file)), force=arguments.force)
    config.forget(places)
    print(f"This machine is no longer registered with {kept.server_url}.")
    return 0


def _disable(api: RuntimeApi, *, force: bool) -> None:
    try:
        api.unregister()
    except NotAllowed as refusal:
        print(f"The service already refuses this agent: {refusal}")
    except (NoAnswer, Refusal) as failure:
        if not force:
            raise ServiceUnreachable(f"{failure} Add --force to remove the credential anyway.") from failure
        print(f"The service could not be notified: {failure} Revoke the agent there.")
