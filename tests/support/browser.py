"""A real Chromium that reaches nothing but this machine."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect, sync_playwright

_FOUND = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

#: Marks a test that needs a browser; skipped, with the reason, where there is none.
needs_chromium = pytest.mark.skipif(_FOUND is None, reason="not installed: chromium")

#: How long a busy machine may take for what a person would see at once, in milliseconds.
PATIENCE = 90_000.0
ZONE = "Europe/Berlin"

expect.set_options(timeout=PATIENCE)


@dataclass
class Seen:
    """A page, what it asked for, and what went wrong in it."""

    page: Page
    asked: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def elsewhere(self) -> list[str]:
        """Requests that were not for this machine."""
        return [url for url in self.asked if urlsplit(url).hostname not in ("127.0.0.1", "localhost")]

    def texts(self, selector: str) -> list[list[str]]:
        """Return the text of each cell of each row that *selector* finds, as it is seen, in single blanks."""
        script = "rows => rows.map(row => [...row.children].map(cell => cell.innerText.replace(/\\s+/g, ' ').trim()))"
        found: list[list[str]] = self.page.eval_on_selector_all(selector, script)
        return found

    def focused(self) -> str:
        """Return the label, or else the id or text, of what has the focus."""
        script = "(e => e.getAttribute('aria-label') || e.id || e.innerText)(document.activeElement)"
        return str(self.page.evaluate(script)).strip()

    def violations(self, *rules: str) -> list[str]:
        """Return what an accessibility check, or these *rules* of it, has against the page as it is now."""
        found = Axe().run(self.page, options={"runOnly": list(rules)} if rules else None).response
        assert {rule["id"] for rule in found["passes"]} >= set(rules or ["color-contrast"])  # it did look
        return [f"{each['id']}: {[node['target'] for node in each['nodes']]}" for each in found["violations"]]


@contextmanager
def browser() -> Iterator[Browser]:
    """Start the browser; names of other machines lead nowhere."""
    arguments = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--disable-background-networking",
                 "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"]  # fmt: skip
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=_FOUND, args=arguments, timeout=PATIENCE)
        try:
            yield chromium
        finally:
            chromium.close()


@contextmanager
def visiting(chromium: Browser, url: str, *, clock: bool = False, **options: Any) -> Iterator[Seen]:
    """Open *url* in a profile of its own, with *options* of its context; with *clock* time can be put forward."""
    context = chromium.new_context(**{"timezone_id": ZONE, "locale": "en-GB", **options})
    context.set_default_timeout(PATIENCE)
    try:
        seen = Seen(context.new_page())

        def asked(request: Request) -> None:
            seen.asked.append(request.url)

        def said(message: ConsoleMessage) -> None:
            if message.type == "error":
                seen.wrong.append(message.text)

        seen.page.on("request", asked)
        seen.page.on("console", said)
        seen.page.on("pageerror", lambda error: seen.wrong.append(str(error)))
        if clock:
            seen.page.clock.install()
        seen.page.goto(url)
        yield seen
    finally:
        context.close()
