"""Codes from authenticator apps (RFC 6238): six digits, valid for thirty seconds."""

import hmac
from datetime import datetime

import pyotp
from sqlalchemy import or_, update
from sqlalchemy.orm import Session

from holdfast.access.models import User
from holdfast.access.vault import Vault

ISSUER = "Holdfast"
STEP_SECONDS = 30
# The codes of the previous and the next step are accepted too: people are slow, and clocks differ.
DRIFT_STEPS = 1


def new_secret() -> str:
    return pyotp.random_base32()


def otpauth_url(secret: str, username: str) -> str:
    return pyotp.TOTP(secret).provisioning_uri(name=username, issuer_name=ISSUER)


def context(user_id: int) -> str:
    return f"users:{user_id}:totp"


def matching_step(vault: Vault, user: User, code: str, now: datetime) -> int | None:
    """The time step of this code, or None. Whether the code was used before is checked by ``use_step``."""
    if user.totp_secret is None:
        return None
    codes = pyotp.TOTP(vault.decrypt(user.totp_secret, context(user.id)))
    present = int(now.timestamp()) // STEP_SECONDS
    found = None
    for step in range(present - DRIFT_STEPS, present + DRIFT_STEPS + 1):
        if hmac.compare_digest(codes.generate_otp(step).encode(), code.encode()):
            found = step
    return found


def use_step(session: Session, user_id: int, step: int) -> bool:
    """Mark a code as used. Return false if it or a later one has been used before."""
    unused = or_(User.totp_last_step.is_(None), User.totp_last_step < step)
    used = session.execute(
        update(User).where(User.id == user_id, unused).values(totp_last_step=step).returning(User.id),
        execution_options={"synchronize_session": False},
    )
    return used.scalar_one_or_none() is not None
