"""Logging on standard error: one JSON object a line, or a line for people; the web server's own lines included."""

import logging
import sys
from collections.abc import Sequence
from typing import Final, Literal

import structlog
from structlog.typing import Processor

Form = Literal["json", "console"]

LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def configure(level: int = logging.INFO, form: Form = "json") -> None:
    """Log from *level* on, in *form*; warnings and errors alone of libraries."""
    common: Sequence[Processor] = (
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    )
    last = _last(form)
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(level),
        # Asked for at each line: what standard error was when this ran may be closed by then.
        logger_factory=lambda *_: structlog.WriteLogger(sys.stderr),
        processors=[*common, *last],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
            foreign_pre_chain=list(common),
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(max(level, logging.WARNING))


def _last(form: Form) -> Sequence[Processor]:
    """Return what makes a line of what is logged; an exception is told without the values of its frames."""
    if form == "console":
        plain = structlog.dev.plain_traceback
        return (structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain),)
    return (structlog.processors.format_exc_info, structlog.processors.JSONRenderer())
