"""Errors that end a command, each with its exit code."""


class Problem(Exception):
    """Ends a command with a sentence on standard error and this exit code."""

    exit_code = 1


class NotRegistered(Problem):
    exit_code = 3


class ServiceUnreachable(Problem):
    exit_code = 4


class RefusedByService(Problem):
    exit_code = 5


class JobDidNotSucceed(Problem):
    exit_code = 6


class AlreadyRunning(Problem):
    exit_code = 75


EXIT_CODES = """\
exit codes:
  0   done
  1   something went wrong on this machine
  2   the command line is wrong
  3   this machine is not registered
  4   the service cannot be reached
  5   the service refuses: the token or the credential is not (or no longer) valid
  6   `once`: the job ended, but not successfully
  75  another agent already runs on this machine with the same state folder"""
