"""Encrypt a secret in the file that refers to it, with a key in a separate file.

Both files belong to the same owner on the same disk, so this does not protect from that owner. It keeps the secret out
of copied or displayed configuration files. The cipher is HMAC-SHA256 in counter mode, encrypt-then-MAC, because the
standard library has no other cipher.
"""

import base64
import binascii
import hashlib
import hmac
import os
from pathlib import Path

from backup_agent import private_files
from backup_agent.problems import Problem

VERSION = "v1"
KEY_BYTES = 32
NONCE_BYTES = 16
TAG_BYTES = 32


class CannotOpen(Problem):
    """A sealed secret cannot be decrypted with this machine's key."""


def key_of(file: Path) -> bytes:
    """Read the key from the file; create it if the file does not exist."""
    try:
        key = file.read_bytes()
    except FileNotFoundError:
        private_files.make_folder(file.parent)
        private_files.write(file, os.urandom(KEY_BYTES))
        key = file.read_bytes()
    if len(key) != KEY_BYTES:
        raise CannotOpen(f"{file} is not this agent's key; register the machine again.")
    return key


def seal(key: bytes, text: str, purpose: str) -> str:
    """Encrypt a secret for one purpose. Only the same key decrypts the result, and only for the same purpose."""
    nonce = os.urandom(NONCE_BYTES)
    cipher = _mixed(key, nonce, text.encode())
    sealed = nonce + cipher + _tag(key, nonce + cipher, purpose)
    return f"{VERSION}:{base64.b64encode(sealed).decode()}"


def unseal(key: bytes, sealed: str, purpose: str) -> str:
    """Decrypt a result of `seal`. Raise CannotOpen if the key or purpose differs or the text was changed."""
    version, _, encoded = sealed.partition(":")
    try:
        raw = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    nonce, cipher, tag = raw[:NONCE_BYTES], raw[NONCE_BYTES:-TAG_BYTES], raw[-TAG_BYTES:]
    whole = version == VERSION and len(raw) >= NONCE_BYTES + TAG_BYTES
    if not whole or not hmac.compare_digest(tag, _tag(key, nonce + cipher, purpose)):
        raise CannotOpen(
            "A stored secret cannot be decrypted with this machine's key; credential.key may have been replaced. "
            "Register again."
        )
    return _mixed(key, nonce, cipher).decode()


def _mixed(key: bytes, nonce: bytes, content: bytes) -> bytes:
    stream = b""
    counter = 0
    encryption = hmac.digest(key, b"encryption", hashlib.sha256)
    while len(stream) < len(content):
        stream += hmac.digest(encryption, nonce + counter.to_bytes(8), hashlib.sha256)
        counter += 1
    return bytes(one ^ other for one, other in zip(content, stream, strict=False))


def _tag(key: bytes, content: bytes, purpose: str) -> bytes:
    authentication = hmac.digest(key, b"authentication", hashlib.sha256)
    return hmac.digest(authentication, purpose.encode() + b"\0" + content, hashlib.sha256)
