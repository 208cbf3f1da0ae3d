"""Parameters of index operations: none of them has any."""

from pydantic import BaseModel, ConfigDict


class StageParams(BaseModel):
    model_config = ConfigDict(extra="forbid")
