"""Bytes of file names as readable text and as an exact form."""

import base64
import binascii


def readable(path: bytes) -> str:
    return path.decode("utf-8", "replace")


def exact(path: bytes) -> str | None:
    """The base64 form of a path that is not valid UTF-8, else None: the readable form is exact already."""
    try:
        path.decode("utf-8")
    except UnicodeDecodeError:
        return base64.b64encode(path).decode()
    return None


def from_exact(encoded: str) -> bytes:
    """Given a base64 form, return its bytes. Raise ValueError if it is none."""
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise ValueError("not valid base64") from error


def storable(text: str, max_length: int | None = None) -> str:
    """The text without what a store cannot hold (NUL, lone surrogates), cut to a length."""
    cleaned = text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
    return cleaned if max_length is None else cleaned[:max_length]
