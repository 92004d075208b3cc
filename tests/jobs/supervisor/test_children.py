"""What is started beside the answers gives way to them where both share a core."""

import os

from jobs.supervisor import children
from tests.support.service import wait_until


def test_a_job_gives_way_and_a_server_does_not() -> None:
    asked = ("-n", "1", "import time; time.sleep(60)")
    job, server = (children.start("timeit", asked, quiet=quiet) for quiet in (True, False))
    try:
        own = os.getpriority(os.PRIO_PROCESS, 0)
        wait_until(lambda: os.getpriority(os.PRIO_PROCESS, job.pid) == min(own + 10, 19))
        assert os.getpriority(os.PRIO_PROCESS, server.pid) == own
    finally:
        children.end([job, server])
