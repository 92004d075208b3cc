"""The page's files: open, cacheable, and allowed to reach nothing but the service itself."""

import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import httpx
import pytest

from jobs.service.auth import Token
from tests.support.service import Fakes, running

FILES = {each.name: each for each in resources.files("jobs.service.page").joinpath("static").iterdir()}


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with running(Fakes().parts(Token("secret-token", None))) as url, httpx.Client(base_url=url) as client:
        yield client


def test_the_page_and_every_file_of_it_need_no_token(client: httpx.Client) -> None:
    assert client.get("/").text == FILES["index.html"].read_text()
    for name, file in FILES.items():
        answer = client.get(f"/page/{name}")
        assert (answer.status_code, answer.content) == (200, file.read_bytes()), name
    assert client.get("/v1/sources").status_code == 401


@pytest.mark.parametrize(
    ("path", "media"),
    [("/", "text/html"), ("/page/page.css", "text/css"), ("/page/main.js", "text/javascript"),
     ("/page/icon.svg", "image/svg+xml")],
)  # fmt: skip
def test_files_have_their_types_and_a_policy_that_allows_the_service_alone(
    client: httpx.Client, path: str, media: str
) -> None:
    headers = client.get(path).headers
    assert headers["content-type"].split(";")[0] == media
    assert headers["x-content-type-options"] == "nosniff"
    policy = dict(each.strip().split(" ", 1) for each in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert {policy[kind] for kind in ("script-src", "style-src", "img-src", "connect-src")} == {"'self'"}
    assert policy["frame-ancestors"] == "'none'"


def test_what_is_known_is_not_sent_again(client: httpx.Client) -> None:
    first = client.get("/page/main.js")
    tag = first.headers["etag"]
    again = client.get("/page/main.js", headers={"If-None-Match": f'"other", W/{tag}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert client.get("/page/main.js", headers={"If-None-Match": '"other"'}).content == first.content
    assert client.get("/").headers["etag"] != tag
    assert client.head("/").headers["content-length"] == str(len(FILES["index.html"].read_bytes()))


@pytest.mark.parametrize("name", ["nothing.js", "__init__.py", "%2e%2e%2fshell.py", "..%2f..%2fauth.py"])
def test_no_other_file_is_answered(client: httpx.Client, name: str) -> None:
    answer = client.get(f"/page/{name}")
    assert answer.status_code == 404
    assert "import" not in answer.text


def test_the_page_refers_to_its_own_files_alone_and_makes_no_markup_of_texts() -> None:
    for name, file in FILES.items():
        text = file.read_text()
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text), name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text), (
            name
        )
    page = FILES["index.html"].read_text()
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|<script(?![^>]*\ssrc=)", page)
    named = set(re.findall(r'(?:href|src)="page/([^"]+)"', page))
    modules = {
        module for name, file in FILES.items() for module in re.findall(r'from "\./([^"]+)"', file.read_text())
    }
    assert named | modules | {"index.html"} == set(FILES)


def test_the_pictures_of_the_page_are_those_that_are_shown_and_small(repository: Path) -> None:
    texts = [repository / "README.md", *(repository / "docs").glob("*.md")]
    named = {name for text in texts for name in re.findall(r"\bpictures/([\w.-]+)", text.read_text())}
    found = {each.name: each.stat().st_size for each in (repository / "docs" / "pictures").iterdir()}
    assert named == set(found)
    assert max(found.values()) < 200_000
