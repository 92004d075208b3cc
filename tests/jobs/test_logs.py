"""Logging follows standard error, whatever it was when logging was set up."""

import io
import json
import logging
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


@pytest.mark.parametrize("form", ["json", "console"])
def test_an_error_is_told_without_what_its_frames_held(form: logs.Form, monkeypatch: pytest.MonkeyPatch) -> None:
    said = io.StringIO()
    monkeypatch.setattr(sys, "stderr", said)

    def failing(token: str) -> None:
        raise RuntimeError(f"no answer within {len(token)} s")

    try:
        logs.configure(form=form)
        for each in (structlog.get_logger("ours"), logging.getLogger("theirs")):
            try:
                failing("".join(["se", "cret"]))
            except RuntimeError:
                each.error("failed", exc_info=True)
    finally:
        structlog.reset_defaults()
    lines = said.getvalue()
    assert lines.count("no answer within 6 s") == 2
    assert "secret" not in lines
    assert all(json.loads(line) for line in lines.splitlines()) if form == "json" else "[error" in lines
