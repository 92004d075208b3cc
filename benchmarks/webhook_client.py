"""Who asks the webhook in its benchmark, answer after answer, and holds every patch to a reference."""

import base64
import json
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jsonpatch

from benchmarks.figures import Figure
from benchmarks.webhook_world import PLACE

#: Stands for a decision's name in patches that are compared.
_NAME = b"d" * 36
#: A server that takes less than this share of a core only looks now and then whether there is something to do.
_IDLE = 0.15


class Target:
    """A server under measurement, by its process and port; raises `RuntimeError` for what is no answer."""

    def __init__(self, port: int, pid: int | None = None) -> None:
        self.port = port
        self.pid = pid
        self._socket = self._connected()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def cpu(self) -> float:
        """Seconds of CPU that all of its threads have used."""
        return cpu_of(self.pid) if self.pid is not None else 0.0

    def settle(self, patience: int = 150) -> None:
        """Wait until it does nothing by itself any more, for at most *patience* seconds."""
        quiet = 0
        for _ in range(patience):
            before = self.cpu()
            time.sleep(1.0)
            quiet = quiet + 1 if self.cpu() - before < _IDLE else 0
            if quiet == 2:
                return
        raise RuntimeError(f"still busy by itself after {patience} s")

    def ask(self, asked: "Asked", rows: Iterable[int]) -> list[float]:
        """Post bodies number *rows* of *asked*, each under a name of its own; returns the seconds of each answer."""
        self._socket.close()  # the server may have closed it, idle for long
        self._socket = self._connected()
        bodies = [asked.body(row) for row in rows]
        taken, answers = [], []
        for body in bodies:
            began = time.perf_counter()
            answer = self.post(b"/mutate", body)
            taken.append(time.perf_counter() - began)
            answers.append(answer)
        asked.answered(answers)
        return taken

    def post(self, path: bytes, body: bytes) -> bytes:
        """Post *body* to *path* and return what comes back; raises for anything but 200."""
        self.send(path, body)
        return self.answer()

    def send(self, path: bytes, body: bytes) -> None:
        """Post *body* to *path*; `answer` is to be called before the next."""
        head = b"POST %b HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        self._socket.sendall(head % (path, len(body)) + body)

    def answer(self) -> bytes:
        """Return what comes back; raises for anything but 200."""
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._received()
        head, _, rest = data.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(head.splitlines()[0].decode())
        length = next(
            int(line.split(b":")[1]) for line in head.splitlines() if line.lower().startswith(b"content-length")
        )
        parts, have = [rest], len(rest)
        while have < length:
            parts.append(self._received())
            have += len(parts[-1])
        return b"".join(parts)

    def _connected(self) -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self.port))
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made

    def _received(self) -> bytes:
        data = self._socket.recv(1 << 20)
        if not data:
            raise RuntimeError("the server closed the connection")
        return data


def cpu_of(pid: int) -> float:
    """Return the seconds of CPU that all threads of *pid* have used, by the kernel's count."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


class Asked:
    """What is asked, over and over under new names, and what came of it: each distinct patch once.

    *templates* have `PLACE` for the review's uid.
    """

    def __init__(self, templates: Sequence[bytes], series: int) -> None:
        self.templates = templates
        self._series = series
        self._count = 0
        self._waiting: list[tuple[int, str]] = []
        self._patches: dict[tuple[int, bytes], int] = {}
        self._answers: list[tuple[str, int, bytes]] = []

    def __len__(self) -> int:
        return len(self.templates)

    def body(self, row: int) -> bytes:
        """Return body number *row* under a uid of its own."""
        self._count += 1
        uid = f"{self._count:08d}-0000-4000-8000-{self._series:012d}"
        self._waiting.append((row, uid))
        return self.templates[row].replace(PLACE, uid.encode(), 1)

    def answered(self, answers: Sequence[bytes]) -> None:
        """Take the answers to the bodies that were handed out since; raises `RuntimeError` for a pod not admitted."""
        for (row, uid), answer in zip(self._waiting, answers, strict=True):
            if b'"allowed":true' not in answer or uid.encode() not in answer:
                raise RuntimeError(f"not admitted: {answer[:200]!r}")
            self._answers.append((uid, row, answer))
        self._waiting.clear()

    def compare(self, target: Target) -> tuple[int, int]:
        """Hold every answer since the last call against a reference; returns how many were, and how many differ.

        The reference is worked out once for each pod in each view.
        """
        answers, self._answers = self._answers, []
        groups = json.loads(target.post(b"/groups", json.dumps([uid for uid, _, _ in answers]).encode()))
        same: dict[tuple[int, int], dict[bytes, list[str]]] = {}
        wrong = 0
        for (uid, row, answer), group in zip(answers, groups, strict=True):
            if group is None:
                wrong += 1
                continue
            patch = base64.b64decode(json.loads(answer)["response"].get("patch", ""))
            same.setdefault((group, row), {}).setdefault(patch.replace(uid.encode(), _NAME), []).append(uid)
        for batch in _batches(sorted(same), 500):
            posted = [{"group": group, "request": self._request(row)} for group, row in batch]
            references = json.loads(target.post(b"/reference", json.dumps(posted).encode()))
            for (group, row), reference in zip(batch, references, strict=True):
                pod = self._request(row)["object"]
                expected = jsonpatch.apply_patch(pod, reference)
                for patch, uids in same[group, row].items():
                    if jsonpatch.apply_patch(pod, json.loads(patch or b"[]")) != expected:
                        wrong += len(uids)
        return len(answers), wrong

    def _request(self, row: int) -> dict[str, Any]:
        review = json.loads(self.templates[row].replace(PLACE, _NAME, 1))
        request: dict[str, Any] = review["request"]
        return request

    def forget(self) -> None:
        """Forget the answers so far."""
        self._answers = []


def differing(wrong: int, compared: int, which: str) -> Figure:
    """Return the figure that says how many of the *compared* answers differ from the reference."""
    return Figure(f"answers that differ from the uncached reference ({which})", wrong, f"of {compared}", goal="none",
                  met=not wrong and compared > 0)  # fmt: skip


def _batches(items: Sequence[tuple[int, int]], size: int) -> Iterator[Sequence[tuple[int, int]]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
