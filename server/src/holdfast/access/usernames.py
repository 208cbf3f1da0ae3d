"""User names: their syntax, and which ones count as equal."""

import re
from hashlib import sha256
from typing import Annotated

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from holdfast.access.models import USERNAME_LENGTH
from holdfast.kit.fields import PlainText

FORM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]*")
EMAIL_FORM = re.compile(r"[^@\s]+@[^@\s]+")


def username_key(username: str) -> str:
    """The form of a name that is unique among users, and under which its failed logins are counted."""
    folded = username.strip().casefold()
    return folded if len(folded) <= USERNAME_LENGTH else sha256(folded.encode()).hexdigest()


def _well_formed(username: str) -> str:
    username = username.strip()
    if not FORM.fullmatch(username):
        raise PydanticCustomError(
            "username", "A user name has letters, digits and . _ @ + - and begins with a letter or digit."
        )
    return username


def _an_address(email: str) -> str:
    if not EMAIL_FORM.fullmatch(email):
        raise PydanticCustomError("email", "This is not an e-mail address.")
    return email


AnyUsername = Annotated[str, PlainText(1, 256)]
NewUsername = Annotated[str, PlainText(1, USERNAME_LENGTH), AfterValidator(_well_formed)]
Email = Annotated[str, PlainText(3, 320), AfterValidator(_an_address)]
