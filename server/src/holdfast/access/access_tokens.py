"""Access tokens: signed, short-lived, and useless once the session they refer to has ended."""

from datetime import UTC, datetime, timedelta
from typing import Any

import jwt

from backup_engine.frozen import frozen
from holdfast.access.vault import SecretUnreadable, Vault
from holdfast.errors import Unauthenticated

# Fixed: a token cannot choose its own algorithm.
ALGORITHM = "HS256"
PURPOSE = "access"
MAX_TOKEN_CHARACTERS = 2048
ONLY_SIGNATURE = jwt.types.Options(
    verify_exp=False, verify_nbf=False, verify_iat=False, verify_aud=False, verify_iss=False, verify_sub=False
)
"""The claims are checked separately, because an expired token still identifies its session."""


@frozen
class AccessToken:
    session: str
    expires_at: datetime


def issue(vault: Vault, session: str, now: datetime, life: timedelta) -> str:
    key_id = vault.active_key_id
    claims = {
        "sid": session,
        "use": PURPOSE,
        "iat": int(now.timestamp()),
        "exp": int((now + life).timestamp()),
    }
    return jwt.encode(claims, vault.signing_key(key_id), ALGORITHM, headers={"kid": key_id})


def read(vault: Vault, token: str) -> AccessToken:
    """Given a token, return its claims, expired or not. Raise Unauthenticated if this service did not sign it."""
    if len(token) > MAX_TOKEN_CHARACTERS:
        raise token_invalid()
    try:
        key = vault.signing_key(_key_id(jwt.get_unverified_header(token)))
        claims = jwt.decode(token, key, [ALGORITHM], ONLY_SIGNATURE)
    except (jwt.InvalidTokenError, SecretUnreadable, ValueError) as error:
        raise token_invalid() from error
    session, expires = claims.get("sid"), claims.get("exp")
    if claims.get("use") != PURPOSE or not isinstance(session, str) or type(expires) is not int:
        raise token_invalid()
    return AccessToken(session, datetime.fromtimestamp(expires, tz=UTC))


def _key_id(header: dict[str, Any]) -> str:
    key_id = header.get("kid")
    if not isinstance(key_id, str):
        raise SecretUnreadable("the token names no key")
    return key_id


def token_invalid() -> Unauthenticated:
    return Unauthenticated("auth.token_invalid", "The credential is not valid.")
