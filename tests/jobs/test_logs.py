"""Logging follows standard error, whatever it was when logging was set up."""

import io
import json
import sys

import pytest
import structlog

from jobs import logs


def test_lines_go_to_the_standard_error_of_their_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", first)
    try:
        logs.configure()
        log = structlog.get_logger("test")
        monkeypatch.setattr(sys, "stderr", second)
        first.close()
        log.warning("said", count=1)
    finally:
        structlog.reset_defaults()
    said = json.loads(second.getvalue())
    assert (said["event"], said["count"], said["level"]) == ("said", 1, "warning")
