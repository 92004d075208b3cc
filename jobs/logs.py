"""Logging of what runs for long: one JSON object a line on standard error, the web server's own lines included."""

import logging
import sys

import structlog


def configure(level: int = logging.INFO) -> None:
    """Log from *level* on; warnings and errors alone of libraries."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(level),
        # Asked for at each line: what standard error was when this ran may be closed by then.
        logger_factory=lambda *_: structlog.WriteLogger(sys.stderr),
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
            foreign_pre_chain=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.processors.format_exc_info,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(max(level, logging.WARNING))
