"""What is started beside the answers gives way to them where both share a core."""

import os

import pytest

from jobs.supervisor import children


@pytest.mark.parametrize(("quiet", "more"), [(True, 10), (False, 0)])
def test_a_job_gives_way_and_a_server_does_not(quiet: bool, more: int) -> None:
    wanted = min(os.getpriority(os.PRIO_PROCESS, 0) + more, 19)
    asked = ("-n", "1", "-r", "1", f"import os; os._exit(os.getpriority(os.PRIO_PROCESS, 0) != {wanted})")
    process = children.start("timeit", asked, quiet=quiet)
    assert process.wait(60) == 0
