"""Which connections may stay open: each limit in isolation."""

from dataclasses import dataclass, replace

import pytest

from holdfast.entry.connection_gate import CLOSING_SECONDS, YOUNG_SECONDS, Bounds, Gate, trusted_networks

BOUNDS = Bounds(most=4, per_address=3, strangers_per_address=2, head_seconds=1, body_seconds=1, stall_seconds=1)


@dataclass(eq=False)
class Guest:
    address: str | None = "192.0.2.1"
    since: float = 0.0
    is_known: bool = False
    was_turned_away: bool = False
    closing: bool = False

    def turn_away(self) -> None:
        self.was_turned_away = True

    def check(self, now: float) -> None:
        del now

    def is_closing(self) -> bool:
        return self.closing


def let_in(gate: Gate, *guests: Guest) -> None:
    for guest in guests:
        assert gate.admit(guest, 0.0)


def test_the_oldest_unknown_connection_makes_room_for_a_new_one() -> None:
    gate = Gate(BOUNDS)
    first, second = Guest("192.0.2.1"), Guest("192.0.2.2")
    let_in(gate, first, second, Guest("192.0.2.3"), Guest("192.0.2.4"))
    let_in(gate, Guest("192.0.2.5"))
    assert (first.was_turned_away, second.was_turned_away, len(gate)) == (True, False, 4)


def test_known_connections_are_never_closed_to_make_room() -> None:
    gate = Gate(BOUNDS)
    known = [Guest(f"192.0.2.{number}") for number in range(4)]
    let_in(gate, *known)
    for guest in known:
        guest.is_known = True  # after their first request with a valid credential
    assert not gate.admit(Guest("192.0.2.9"), 100.0)
    assert not any(guest.was_turned_away for guest in known)


def test_an_address_full_of_known_connections_gets_no_more_but_others_do() -> None:
    gate = Gate(BOUNDS)
    known = [Guest(is_known=False) for _ in range(3)]
    for guest in known:
        let_in(gate, guest)
        guest.is_known = True
    assert not gate.admit(Guest(), 100.0)
    assert gate.admit(Guest("192.0.2.2"), 100.0)
    assert not any(guest.was_turned_away for guest in known)


@pytest.mark.parametrize(("age", "goes"), [(YOUNG_SECONDS / 2, False), (YOUNG_SECONDS * 2, True)])
def test_an_unknown_connection_has_a_grace_period_for_its_first_request(age: float, goes: bool) -> None:
    gate = Gate(BOUNDS)
    first = Guest()
    let_in(gate, first, Guest())
    assert gate.admit(Guest(), age)
    assert first.was_turned_away is goes


def test_the_total_limit_of_an_address_also_applies_to_young_unknown_connections() -> None:
    gate = Gate(replace(BOUNDS, strangers_per_address=10))
    guests = [Guest() for _ in range(3)]
    let_in(gate, *guests, Guest())
    assert [guest.was_turned_away for guest in guests] == [True, False, False]


def test_a_connection_that_leaves_twice_makes_room_only_once() -> None:
    gate = Gate(BOUNDS)
    known = [Guest() for _ in range(3)]
    let_in(gate, *known)
    for guest in known:
        guest.is_known = True
    gate.leave(known[0])
    gate.leave(known[0])
    last = Guest()
    let_in(gate, last)
    last.is_known = True
    assert not gate.admit(Guest(), 100.0)


def test_a_trusted_proxy_is_exempt_from_the_limit_per_address() -> None:
    gate = Gate(replace(BOUNDS, most=10, trusted=trusted_networks("192.0.2.0/24")))
    guests = [Guest() for _ in range(8)]
    let_in(gate, *guests)
    assert not any(guest.was_turned_away for guest in guests)


def test_a_closed_connection_whose_peer_does_not_read_is_eventually_aborted() -> None:
    gate = Gate(BOUNDS)
    unread, open_one = Guest("192.0.2.1", closing=True), Guest("192.0.2.2")
    let_in(gate, unread, open_one)
    gate._abort_unread(0.0)
    gate._abort_unread(CLOSING_SECONDS)
    assert not unread.was_turned_away
    gate._abort_unread(CLOSING_SECONDS + 1)
    assert (unread.was_turned_away, open_one.was_turned_away) == (True, False)
