"""Poll once and execute at most one job; jobs that are still held are finished first."""

from argparse import ArgumentParser, Namespace

from backup_agent.client import NoAnswer, NotAllowed, Refusal
from backup_agent.commands.locking import only_agent
from backup_agent.commands.run import add_log_level, agent_of, start_logging, stopped_by_signals
from backup_agent.job_folder import Ending
from backup_agent.places import Places
from backup_agent.problems import JobDidNotSucceed, Problem, RefusedByService, ServiceUnreachable
from backup_protocol import Complete


def add_arguments(parser: ArgumentParser) -> None:
    add_log_level(parser)


def run(places: Places, arguments: Namespace) -> int:
    start_logging(arguments.log_level)
    endings: list[Ending | None] = []
    with only_agent(places):
        agent = agent_of(places)
        agent.on_reported = endings.append
        try:
            with stopped_by_signals(agent):
                agent.once()
        except NotAllowed as refusal:
            raise RefusedByService(f"The service refuses this agent: {refusal}") from refusal
        except NoAnswer as failure:
            raise ServiceUnreachable(str(failure)) from failure
        except Refusal as refusal:
            raise Problem(str(refusal)) from refusal
    if not endings:
        print("No jobs to run.")
    if any(not isinstance(ending, Complete) for ending in endings):
        raise JobDidNotSucceed("The job did not succeed; its log is on the service.")
    return 0
