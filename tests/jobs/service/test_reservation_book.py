"""Own recent decisions: they count until seen, and not for ever."""

from jobs.service.reservations import Reservations
from rules.view import Reservation


def _reservation(name: str) -> Reservation:
    return Reservation(name, "n1", "guest/hello", {"cpu": 1.0})


def test_a_reservation_counts_until_its_pod_is_seen() -> None:
    book = Reservations()
    book.add(_reservation("d1"))
    book.add(_reservation("d2"))
    before = book.changes
    book.seen("d1")
    book.seen("never made")
    assert [one.decision for one in book.current()] == ["d2"]
    assert book.changes == before + 1


def test_a_reservation_expires() -> None:
    clock = [0.0]
    book = Reservations(seconds=60.0, clock=lambda: clock[0])
    book.add(_reservation("d1"))
    clock[0] = 59.9
    assert [one.decision for one in book.current()] == ["d1"]
    clock[0] = 60.0
    assert book.current() == []
    assert book.add(_reservation("d2"))


def test_there_is_only_so_much_room() -> None:
    book = Reservations(room=1)
    assert book.add(_reservation("d1"))
    assert not book.add(_reservation("d2"))
    assert [one.decision for one in book.current()] == ["d1"]
