"""One browser, and one demo that serves, for all tests here."""

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser

from tests.support.browser import browser
from tests.support.served_demo import Demo, ask, enrich, serving


# Of a module: while it lives, its thread has a running event loop, which tests of others do not expect.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as found:
        yield found


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with serving(tmp_path_factory.mktemp("shown")) as served:
        enrich(served)
        with httpx.Client(base_url=served.url) as client:
            ask(client)
        yield served
