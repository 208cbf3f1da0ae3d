"""Write answers as JSON from plain values, without models."""

import json
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from holdfast.kit.clock import with_offset


def as_json(answer: Mapping[str, Any]) -> bytes:
    return json.dumps(answer, default=_as_text, ensure_ascii=False, separators=(",", ":")).encode()


def _as_text(value: object) -> str:
    if isinstance(value, datetime):
        return with_offset(value)
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(value)
