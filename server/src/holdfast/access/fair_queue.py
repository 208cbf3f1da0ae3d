"""A fair queue: a client waits for at most one item of each other client."""

from collections import deque
from collections.abc import Collection
from typing import Generic, TypeVar

from backup_engine.frozen import frozen

Item = TypeVar("Item")


@frozen
class Whose:
    """The client of an item. Addresses take turns, and so do the names within an address."""

    address: str
    name: str


class FairQueue(Generic[Item]):
    """Relies on the order of dictionaries: after its turn, an entry moves to the end."""

    def __init__(self) -> None:
        self._addresses: dict[str, dict[str, deque[Item]]] = {}
        self._counts: dict[str, int] = {}
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def of_address(self, address: str) -> int:
        return self._counts.get(address, 0)

    def waiting(self, whose: Whose) -> int:
        return len(self._addresses.get(whose.address, {}).get(whose.name, ()))

    def put(self, whose: Whose, item: Item) -> None:
        self._addresses.setdefault(whose.address, {}).setdefault(whose.name, deque()).append(item)
        self._counts[whose.address] = self.of_address(whose.address) + 1
        self._length += 1

    def take(self, busy: Collection[Whose]) -> tuple[Whose, Item] | None:
        """Remove and return the next item of a client that is not busy."""
        for address, names in self._addresses.items():
            for name, items in names.items():
                whose = Whose(address, name)
                if whose not in busy:
                    item = items.popleft()
                    self._to_the_end(whose)
                    return whose, item
        return None

    def fullest(self) -> Whose | None:
        """Of the address with the most items, the name with the most items."""
        if not self._counts:
            return None
        address = max(self._counts, key=self._counts.__getitem__)
        names = self._addresses[address]
        return Whose(address, max(names, key=lambda name: len(names[name])))

    def take_last(self, whose: Whose) -> Item:
        item = self._addresses[whose.address][whose.name].pop()
        self._removed(whose)
        return item

    def remove(self, whose: Whose, item: Item) -> None:
        """Remove an item if it is still waiting."""
        items = self._addresses.get(whose.address, {}).get(whose.name)
        if items is not None and item in items:
            items.remove(item)
            self._removed(whose)

    def _to_the_end(self, whose: Whose) -> None:
        names = self._addresses.pop(whose.address)
        names[whose.name] = names.pop(whose.name)
        self._addresses[whose.address] = names
        self._removed(whose)

    def _removed(self, whose: Whose) -> None:
        self._length -= 1
        self._counts[whose.address] -= 1
        names = self._addresses[whose.address]
        if not names[whose.name]:
            del names[whose.name]
        if not names:
            del self._addresses[whose.address], self._counts[whose.address]
