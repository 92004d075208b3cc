"""``python -m jobs.demo.recorder --out DIR``: run the sessions that DIR lacks, then write the recording."""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from jobs.demo.recorder import assemble, plan, session
from jobs.demo.recorder.functions import FUNCTIONS
from pipeline.errors import BadInput


def main(arguments: list[str] | None = None) -> int:
    """Record; returns the exit code: 0 all recorded, 3 sessions are left for another call, 2 wrong input."""
    parser = argparse.ArgumentParser(prog="python -m jobs.demo.recorder", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="directory of the recording")
    parser.add_argument("--minutes", type=float, default=60.0, help="start no session after this long")
    parser.add_argument("--functions", default=",".join(FUNCTIONS), help="names of functions, separated by commas")
    parser.add_argument("--repeats", type=int, default=plan.REPEATS, help="how often each pair is recorded")
    parser.add_argument("--scale", type=float, default=1.0, help="length of a session, relative to the plan's")
    parser.add_argument("--seed", type=int, default=1, help="of the plan and of the sizes of invocations")
    parser.add_argument("--foreign", type=float, default=0.02, help="share of the cores that others may use")
    parser.add_argument("--scratch", type=Path, help="directory to write to and measure the disk of (default: DIR)")
    given = parser.parse_args(arguments)
    try:
        return record(given)
    except BadInput as error:
        sys.stderr.write(f"{error}\n")
        return 2


def record(given: argparse.Namespace) -> int:
    """Run the sessions that *given* plans and DIR lacks, and write the recording once none is missing."""
    names = given.functions.split(",")
    for name in names:
        if name not in FUNCTIONS:
            raise BadInput(f"--functions: {name!r} is none of {', '.join(FUNCTIONS)}")
    planned = plan.sessions(names, given.repeats)
    kept = given.out / "sessions"
    scratch = given.scratch or given.out / "scratch"
    for directory in (kept, scratch):
        directory.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + given.minutes * 60
    missing = [each for each in planned if not (kept / f"{each.key}.json.gz").exists()]
    for number, each in enumerate(missing, len(planned) - len(missing) + 1):
        recorded = _quietly(each, given, scratch, deadline)
        if recorded is None:
            sys.stdout.write(f"{number - 1} of {len(planned)} sessions are recorded; run again for the others\n")
            return 3
        assemble.write_json(kept / f"{each.key}.json.gz", recorded)
        sys.stdout.write(f"{number}/{len(planned)} {each.key}\n")
        session.settle(0.05)
    assemble.write(given.out, [assemble.read_json(kept / f"{each.key}.json.gz") for each in planned])
    return 0


def _quietly(
    planned: plan.Session, given: argparse.Namespace, scratch: Path, deadline: float
) -> dict[str, Any] | None:
    """Run one session until others leave the cores to it; None when no more may be started."""
    parts = plan.parts(planned, given.seed, given.scale)
    rejected = 0
    while time.monotonic() < deadline:
        recorded = session.record(planned, parts, given.seed, scratch)
        if recorded["foreign"] <= given.foreign:
            return {**recorded, "rejected": rejected, "seed": given.seed, "scale": given.scale}
        rejected += 1
        sys.stdout.write(f"{planned.key}: others used {recorded['foreign']:.1%} of the cores; once more\n")
        session.settle(0.5)
    return None


if __name__ == "__main__":
    raise SystemExit(main())
