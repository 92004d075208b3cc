"""The region that the demo plays: drains, a crash, its reset, and a drain more."""

import re

from jobs.demo.region import DRAINS, play, told


def test_it_drains_and_goes_back_to_the_last_completed_checkpoint() -> None:
    drained, reset, again = play()
    assert drained.last_completed_seq_id >= DRAINS
    assert drained.last_completed_seq_id <= reset.last_completed_reset <= reset.last_completed_seq_id
    assert [span.seq_id for span in reset.recent_resets] == [reset.last_completed_reset]
    assert reset.last_completed_seq_id < reset.current_seq_id
    assert again.last_completed_seq_id > reset.last_completed_reset
    assert again.current_reset_attempt == 0  # a completed drain takes the attempt back


def test_it_is_told_in_one_line() -> None:
    assert re.fullmatch(
        r"A consistent region of 4 simulated PEs, 20% of whose datagrams are lost: \d+ drains of \d+ ms on average;"
        r" a PE crashed, and all went back to checkpoint \d+ in \d+ ms; checkpoint \d+ is completed since\.",
        told(),
    )
