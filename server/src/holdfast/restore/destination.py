"""Checks the folder that a restore writes into, before the restore is queued."""

from backup_jobs.restore import private_tree
from holdfast.errors import Unprocessable


def inspect(path: bytes) -> None:
    """Raise Unprocessable if the path cannot become the destination, as far as visible without writing."""
    try:
        private_tree.inspect(path)
    except private_tree.DestinationUnusable as error:
        raise Unprocessable(error.key, str(error)) from error
