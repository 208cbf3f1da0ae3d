"""A fair queue: a client waits for at most one item of each other client."""

from collections import deque
from collections.abc import Collection
from typing import Generic, TypeVar

from backup_engine.frozen import frozen

Item = TypeVar("Item")


@frozen
class ClientKey:
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

    def waiting(self, client: ClientKey) -> int:
        return len(self._addresses.get(client.address, {}).get(client.name, ()))

    def put(self, client: ClientKey, item: Item) -> None:
        self._addresses.setdefault(client.address, {}).setdefault(client.name, deque()).append(item)
        self._counts[client.address] = self.of_address(client.address) + 1
        self._length += 1

    def take(self, busy: Collection[ClientKey]) -> tuple[ClientKey, Item] | None:
        """Remove and return the next item of a client that is not busy."""
        for address, names in self._addresses.items():
            for name, items in names.items():
                client = ClientKey(address, name)
                if client not in busy:
                    item = items.popleft()
                    self._to_the_end(client)
                    return client, item
        return None

    def fullest(self) -> ClientKey | None:
        """Of the address with the most items, the name with the most items."""
        if not self._counts:
            return None
        address = max(self._counts, key=self._counts.__getitem__)
        names = self._addresses[address]
        return ClientKey(address, max(names, key=lambda name: len(names[name])))

    def take_last(self, client: ClientKey) -> Item:
        item = self._addresses[client.address][client.name].pop()
        self._removed(client)
        return item

    def remove(self, client: ClientKey, item: Item) -> None:
        """Remove an item if it is still waiting."""
        items = self._addresses.get(client.address, {}).get(client.name)
        if items is not None and item in items:
            items.remove(item)
            self._removed(client)

    def _to_the_end(self, client: ClientKey) -> None:
        names = self._addresses.pop(client.address)
        names[client.name] = names.pop(client.name)
        self._addresses[client.address] = names
        self._removed(client)

    def _removed(self, client: ClientKey) -> None:
        self._length -= 1
        self._counts[client.address] -= 1
        names = self._addresses[client.address]
        if not names[client.name]:
            del names[client.name]
        if not names:
            del self._addresses[client.address], self._counts[client.address]
