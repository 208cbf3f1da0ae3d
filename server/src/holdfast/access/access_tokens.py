"""Access tokens: signed, short-lived, and useless without the session that they name."""

from datetime import UTC, datetime, timedelta

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import GuestProtocol, OctKey
from joserfc.registry import Header

from holdfast.access.vault import SecretUnreadable, Vault
from holdfast.errors import Unauthenticated
from holdfast.kit.frozen import frozen

# Pinned: the algorithm named in the token is only ever compared with this.
ALGORITHM = "HS256"
PURPOSE = "access"
MAX_TOKEN_CHARACTERS = 2048


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
    return jwt.encode({"alg": ALGORITHM, "kid": key_id}, claims, OctKey.import_key(vault.signing_key(key_id)))


def read(vault: Vault, token: str) -> AccessToken:
    """Given a token, return its claims, expired or not. Raise Unauthenticated if this service did not sign it."""

    def key(signed: GuestProtocol) -> OctKey:
        return OctKey.import_key(vault.signing_key(_key_id(signed.headers())))

    if len(token) > MAX_TOKEN_CHARACTERS:
        raise token_invalid()
    try:
        claims = jwt.decode(token.encode("ascii"), key, algorithms=[ALGORITHM]).claims
    except (JoseError, SecretUnreadable, ValueError) as error:
        raise token_invalid() from error
    session, expires = claims.get("sid"), claims.get("exp")
    if claims.get("use") != PURPOSE or not isinstance(session, str) or type(expires) is not int:
        raise token_invalid()
    return AccessToken(session, datetime.fromtimestamp(expires, tz=UTC))


def _key_id(header: Header) -> str:
    key_id = header.get("kid")
    if not isinstance(key_id, str):
        raise SecretUnreadable("the token names no key")
    return key_id


def token_invalid() -> Unauthenticated:
    return Unauthenticated("auth.token_invalid", "The credential is not valid.")
