"""Errors of requests about ssh machines."""

from typing import Any

from holdfast.errors import Unprocessable
from holdfast.execution import ssh


def refused(key: str, **params: Any) -> Unprocessable:
    return Unprocessable(key, ssh.SENTENCES[key], **params)
