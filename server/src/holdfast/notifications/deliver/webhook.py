"""Webhooks following Standard Webhooks: a constant id, a time, and a signature over both and the body."""

import base64
import binascii
import hashlib
import hmac
import secrets as random
from typing import Any

from holdfast.kit import clock
from holdfast.notifications.deliver import http_request
from holdfast.notifications.deliver.result import Result

PREFIX = "whsec_"
LEAST_BYTES, MOST_BYTES = 24, 64


def new_secret() -> str:
    return PREFIX + base64.b64encode(random.token_bytes(32)).decode()


def is_secret(value: str) -> bool:
    try:
        key = _key(value)
    except (ValueError, binascii.Error):
        return False
    return value.startswith(PREFIX) and LEAST_BYTES <= len(key) <= MOST_BYTES


def sign(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    signed = hmac.new(_key(secret), f"{message_id}.{timestamp}.".encode() + body, hashlib.sha256)
    return f"v1,{base64.b64encode(signed.digest()).decode()}"


def send(options: dict[str, Any], secrets: dict[str, Any], body: dict[str, Any], delivery_uuid: str) -> Result:
    content = str(body["payload"]).encode()
    message_id, timestamp = f"msg_{delivery_uuid}", int(clock.now().timestamp())
    keys = [secrets["secret"], *([secrets["previous_secret"]] if secrets.get("previous_secret") else [])]
    return http_request.post(
        options["url"],
        content,
        {
            "Content-Type": "application/json",
            "webhook-id": message_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": " ".join(sign(key, message_id, timestamp, content) for key in keys),
        },
    )


def _key(secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
