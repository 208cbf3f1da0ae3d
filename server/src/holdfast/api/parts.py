"""Objects that live as long as the service, under typed names. Features are built from them, and routes use them.

MACHINES = Part[Machines]("machines")                       # declares the name, next to the class
MACHINES.made_by(lambda parts: Machines(parts[DATABASE]))   # creates it; listed in the `provides` of its feature
TheMachines = Annotated[Machines, Depends(MACHINES)]        # requests it in a route
"""

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from fastapi import Request

from backup_engine.frozen import frozen

T = TypeVar("T")


class Part(Generic[T]):
    """The typed name of an object. Used as a dependency of a route, it yields that object."""

    def __init__(self, name: str) -> None:
        self.name = name

    def made_by(self, make: "Callable[[Parts], T]") -> "Maker":
        return Maker(self, make)

    def given(self, value: T) -> "Maker":
        return Maker(self, lambda _parts: value)

    def of(self, app: Any) -> T:
        parts: Parts = app.parts
        return parts[self]

    async def __call__(self, request: Request) -> T:
        return self.of(request.app)


@frozen
class Maker:
    part: Part[Any]
    make: "Callable[[Parts], Any]"


class PartsError(Exception):
    """The service cannot be assembled: an object is missing, provided twice, or depends on itself."""


class Parts:
    """Creates each object when it is first requested, so that features can be listed in any order."""

    def __init__(self, makers: Iterable[Maker]) -> None:
        self._makers: dict[Part[Any], Callable[[Parts], Any]] = {}
        self._made: dict[Part[Any], Any] = {}
        self._making: list[Part[Any]] = []
        for maker in makers:
            if maker.part in self._makers:
                raise PartsError(f"{maker.part.name} is provided twice")
            self._makers[maker.part] = maker.make

    def __getitem__(self, part: Part[T]) -> T:
        if part not in self._made:
            self._made[part] = self._make(part)
        found: T = self._made[part]
        return found

    def make_all(self) -> None:
        """Create all objects before the first request; afterwards, any thread may read them."""
        for part in self._makers:
            self[part]

    def _make(self, part: Part[T]) -> T:
        if part not in self._makers:
            raise PartsError(f"no feature provides {part.name}")
        if part in self._making:
            chain = [each.name for each in (*self._making[self._making.index(part) :], part)]
            raise PartsError(f"a part needs itself: {' → '.join(chain)}")
        self._making.append(part)
        try:
            made: T = self._makers[part](self)
        finally:
            self._making.pop()
        return made
