"""Parameters of index operations: none of them has any."""

from pydantic import ConfigDict

from holdfast.kit.schema import Schema


class StageParams(Schema):
    model_config = ConfigDict(extra="forbid")
