"""Request and response schema of the services of a repository."""

from typing import Annotated

from pydantic import Field

from backup_jobs.services import UNIT_NAME
from holdfast.kit.schema import Closed

MOST_SERVICES = 20
UnitName = Annotated[str, Field(pattern=rf"^{UNIT_NAME}$", max_length=255, examples=["nextcloud.service"])]


class Services(Closed):
    services: Annotated[list[UnitName], Field(max_length=MOST_SERVICES)] = Field(
        description="systemd units on the machine that runs the engine, stopped in this order during backups."
    )
