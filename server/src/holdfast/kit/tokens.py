"""Random tokens and their stored form."""

import hashlib
import secrets


def new_token(prefix: str) -> str:
    """Return a new token with 256 bits of randomness."""
    return prefix + secrets.token_urlsafe(32)


def token_hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
