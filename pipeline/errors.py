"""The errors that a person or the scheduler has to act on; each is one line that names the culprit.

A message never holds a secret: clients name a URL without its credentials and a key by where it was read from.
"""

import msgspec

#: What decoding a foreign text as JSON can raise; deep nesting is no JSON that anybody meant.
NOT_JSON: tuple[type[Exception], ...] = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class ColocationError(Exception):
    """The root of all errors that are reported as one line, without a traceback."""


class BadInput(ColocationError):
    """What a person gave is wrong: the message names the field and the file (exit code 2)."""


class Damaged(BadInput):
    """A file that this product wrote is broken."""


class SourceError(ColocationError):
    """A source did not give what was asked.

    *source* says which (``kubernetes``, ``prometheus``, ``openwhisk``); *reason* is a short stable word for the
    metric (``timeout``, ``status_500``, ``not_json``, ``empty``...).
    """

    def __init__(self, source: str, reason: str, message: str) -> None:
        super().__init__(message)
        self.source = source
        self.reason = reason


class Temporary(SourceError):
    """The same request may succeed later, not before *delay* seconds have passed."""

    def __init__(self, source: str, reason: str, message: str, delay: float = 1.0) -> None:
        super().__init__(source, reason, message)
        self.delay = delay


class Permanent(SourceError):
    """The same request will fail again until a person changes something (a key, a URL, a query)."""
