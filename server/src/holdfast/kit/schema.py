"""The base of all bodies, answers and stored documents."""

from pydantic import BaseModel


class Schema(BaseModel, defer_build=True):
    """Its validators are built when they are first needed: building all of them would take a fifth of a start."""
