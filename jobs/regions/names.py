"""Names of jobs and namespaces, checked before they become part of a path, a label or the name of a Service."""

import re
from typing import Final

from jobs.regions import paths
from pipeline.errors import BadInput

#: The longest name of an object that DNS knows; that of the job's Service leaves less to the job.
_MOST: Final = 63
_MOST_OF_JOB: Final = _MOST - len(paths.service_name(""))
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def job(name: object, where: str) -> str:
    """Return the name of a job; raises `BadInput` naming *where* if its objects could not be named after it."""
    return _checked(name, where, _MOST_OF_JOB)


def namespace(name: object, where: str) -> str:
    """Return the name of a namespace; raises `BadInput` naming *where* for what cannot be one."""
    return _checked(name, where, _MOST)


def _checked(name: object, where: str, most: int) -> str:
    if not isinstance(name, str):
        raise BadInput(f"{where}: {str(name)[:60]!r} is no text")
    if not _LABEL.fullmatch(name) or len(name) > most:
        raise BadInput(
            f"{where}: {name[:60]!r}: only a-z, 0-9 and - within, {most} characters at most"
            if name
            else f"{where}: empty"
        )
    return name
