"""Basic authentication, for programs that support only a user name and a password: an account token is the password."""

import base64
import binascii

from starlette.requests import Request

from holdfast.access.access_tokens import token_invalid
from holdfast.access.caller import Caller, identified_by, with_final_password


async def signed_in_by_basic(request: Request) -> Caller:
    """Return the owner of the account token, provided that the user name is theirs. Bearer tokens work as elsewhere.

    Passwords are not accepted: they would be sent with every request and open to guessing. Raise Unauthenticated.
    """
    scheme, _, value = request.headers.get("Authorization", "").strip().partition(" ")
    if scheme.lower() != "basic":
        return with_final_password(await identified_by(request))
    try:
        name, _, token = base64.b64decode(value.strip(), validate=True).decode("utf-8").partition(":")
    except (binascii.Error, ValueError) as error:
        raise token_invalid() from error
    caller = with_final_password(await identified_by(request, token))
    if caller.account_token_id is None or name.rpartition("\\")[2].casefold() != caller.username.casefold():
        raise token_invalid()
    return caller
