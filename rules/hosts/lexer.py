"""SPL text to tokens that know their line and column, and a cursor over them."""

import re
from dataclasses import dataclass
from typing import Final, NoReturn

from pipeline.errors import BadInput

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
      | (?P<name>[A-Za-z_]\w*)
      | (?P<number>\d[\w.]*)
      | (?P<text>"(?:[^"\\\n]|\\.)*"[ur]?)
      | (?P<open>"|/\*)
      | (?P<sign>::|.)""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_ESCAPE: Final = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v", "0": "\0"}
_OPEN, _CLOSE = "([{", ")]}"
#: Reading takes seconds for a mebibyte, and a service must not be kept by what somebody posts.
_LONGEST: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Token:
    """One token; *kind* is name, number, text (its *value* without quotes), sign or end."""

    kind: str
    value: str
    line: int
    column: int

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else f"{self.value!r}"


class Cursor:
    """Reads the tokens of *text*; errors are `BadInput` and say *where*, the line and the column."""

    def __init__(self, text: str, where: str) -> None:
        if len(text) > _LONGEST:
            raise BadInput(f"{where}: longer than {_LONGEST} characters")
        self.where = where
        self._tokens = self._scan(text)
        self._at = 0

    @property
    def next(self) -> Token:
        """The token that comes."""
        return self._tokens[self._at]

    def after(self, steps: int = 1) -> Token:
        """Return the token behind the next one."""
        return self._tokens[min(self._at + steps, len(self._tokens) - 1)]

    def take(self) -> Token:
        """Return the next token and step over it."""
        token = self._tokens[self._at]
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def at(self, *values: str) -> bool:
        """Whether a name or sign of *values* comes next."""
        return self.next.kind in ("name", "sign") and self.next.value in values

    def skip(self, value: str) -> bool:
        """Step over the sign or name *value* where it comes next; returns whether it did."""
        return self.at(value) and bool(self.take())

    def expect(self, value: str) -> Token:
        """Step over *value*, which has to come next."""
        return self.take() if self.at(value) else self.fail(f"expected {value!r}, not {self.next}")

    def kind(self, kind: str, what: str) -> Token:
        """Step over a token of *kind*, which has to come next."""
        return self.take() if self.next.kind == kind else self.fail(f"expected {what}, not {self.next}")

    def balanced(self, opening: str, closing: str) -> None:
        """Step over everything from *opening*, which comes next, to its *closing*."""
        began, depth = self.expect(opening), 1
        while depth:
            if self.next.kind == "end":
                self.fail(f"{opening!r} is not closed", began)
            token = self.take()
            if token.kind == "sign":
                depth += (token.value == opening) - (token.value == closing)

    def step(self) -> None:
        """Step over one token, or over all in brackets where one opens."""
        if self.next.kind == "sign" and self.next.value in _OPEN:
            self.balanced(self.next.value, _CLOSE[_OPEN.index(self.next.value)])
        else:
            self.take()

    def fail(self, message: str, token: Token | None = None) -> NoReturn:
        """Raise `BadInput` at *token*, else at the next one."""
        token = token or self.next
        raise BadInput(f"{self.where}: line {token.line}, column {token.column}: {message}")

    def _scan(self, text: str) -> list[Token]:
        tokens: list[Token] = []
        line, begin = 1, 0
        for found in _TOKEN.finditer(text):
            kind, value = str(found.lastgroup), found[0]
            token = Token(kind, value, line, found.start() - begin + 1)
            if kind == "open":
                self.fail("a string is not closed" if value == '"' else "a comment is not closed", token)
            if kind == "text":
                token = Token(kind, self._plain(token), line, token.column)
            if kind != "space":
                tokens.append(token)
            if breaks := value.count("\n"):
                line, begin = line + breaks, found.start() + value.rindex("\n") + 1
        return [*tokens, Token("end", "", line, len(text) - begin + 1)]

    def _plain(self, token: Token) -> str:
        def plain(escape: re.Match[str]) -> str:
            code = escape[1]
            if len(code) == 5:
                if 0xD800 <= int(code[1:], 16) < 0xE000:
                    self.fail(f"\\{code} is no character", token)
                return chr(int(code[1:], 16))
            return _ESCAPES.get(code, code)

        return _ESCAPE.sub(plain, token.value[1 : token.value.rindex('"')])
