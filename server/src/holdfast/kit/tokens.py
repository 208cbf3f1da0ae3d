"""Random tokens and their stored form."""

import base64
import hashlib
import hmac
import secrets


def new_token(prefix: str) -> str:
    """Return a new token with 256 bits of randomness."""
    return prefix + secrets.token_urlsafe(32)


def next_token(prefix: str, key: bytes, message: str) -> str:
    """Return the token that follows from a message: of the same form, and unknown to all who lack the key."""
    derived = hmac.digest(key, message.encode("utf-8", "surrogatepass"), "sha256")
    return prefix + base64.urlsafe_b64encode(derived).decode().rstrip("=")


def token_hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
