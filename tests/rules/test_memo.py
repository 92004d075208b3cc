"""What is kept beside a frozen value is worked out once, and bounded."""

from rules import memo


def test_the_oldest_results_stay_where_there_is_no_room():
    kept, made = memo.Memo(), []

    def once(key):
        return kept.once(key, lambda: made.append(key) or f"result {key}")

    room = memo._ROOM
    for key in range(room + 3):
        assert once(key) == f"result {key}"
    assert made == list(range(room + 3))
    made.clear()
    for key in range(room - 1):
        once(key)
    assert made == []
    assert once(room - 1) == f"result {room - 1}"
    assert made == [room - 1]


def test_results_are_dropped_in_bits_the_newest_first() -> None:
    kept: memo.Memo = memo.Memo()
    for number in range(5):
        kept.once(number, lambda number=number: number)  # type: ignore[misc]
    assert kept.drop(2)
    assert list(kept._kept) == [0, 1, 2]
    assert not kept.drop(10)
    assert kept.once(4, lambda: "again") == "again"
