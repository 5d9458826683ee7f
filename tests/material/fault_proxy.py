"""A proxy before an S3 server that does to requests what networks and servers do.

    lost       the request is done, and its answer never comes
    hang       no answer for some seconds, then the connection ends
    conflict   409, and the request is not done
    broken     500, and the request is not done
    slow_down  503, and the request is not done
    torn       half of what is sent arrives; the server never sees the rest
    reset      half of the answer, then the connection ends
    stale      a listing as it was before

A refusal may also be `denied_each`, `slow_each` or `broken_each`: 200, and an object is not deleted.

Which request has which fault is drawn from a seed. Faults are counted by kind and verb. `Refusals` is a
server that refuses some verbs always. `LateRequest` is a network in which one request arrives long after
its process has ended.
"""

import contextlib
import http.client
import random
import re
import socket
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Self
from urllib.parse import parse_qs, urlsplit

KINDS = ("lost", "hang", "conflict", "broken", "slow_down", "torn", "reset", "stale")
VERBS = ("get", "put", "put_new", "replace", "list", "delete")
_ERRORS = {
    "conflict": (409, "OperationAborted"),
    "broken": (500, "InternalError"),
    "slow_down": (503, "SlowDown"),
    "denied": (403, "AccessDenied"),
    "moved": (301, "PermanentRedirect"),
    "busy": (429, "TooManyRequests"),
    "expired": (400, "ExpiredToken"),
    "unable": (501, "NotImplemented"),
    "denied_each": (200, "AccessDenied"),
    "slow_each": (200, "SlowDown"),
    "broken_each": (200, "InternalError"),
}
_KEY = re.compile("<Key>[^<]*</Key>")
_WITH_BODY = ("put", "put_new", "replace", "delete")


def fits(kind: str, verb: str) -> bool:
    """Say whether a fault can happen to requests of a verb."""
    if kind == "torn":
        return verb in _WITH_BODY
    if kind == "stale":
        return verb == "list"
    return kind != "reset" or verb in ("get", "list")


@dataclass
class Faults:
    """What the proxy does.

    Args:
        seed: of the draws.
        rate: share of the requests that have a fault.
        hang: seconds.
    """

    seed: int
    rate: float = 0.1
    hang: float = 3.0
    requests: Counter[str] = field(default_factory=Counter)
    """By verb."""
    done: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Faults by kind and verb."""
    sent: Counter[str] = field(default_factory=Counter)
    """Bytes of what clients wrote, by verb."""
    received: Counter[str] = field(default_factory=Counter)
    """Bytes of what clients read, by verb."""
    lists: dict[str, bytes] = field(default_factory=dict)
    """The last answer to each listing."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Begin the draws."""
        self._random = random.Random(self.seed)  # noqa: S311  # which faults, not secrets

    def draw(self, verb: str, path: str) -> str | None:
        """Return the fault of the next request; the rarest of its verb so far comes first."""
        del path
        with self.lock:
            self.requests[verb] += 1
            if self._random.random() >= self.rate:
                return None
            kinds = [kind for kind in KINDS if fits(kind, verb)]
            least = min(self.done[kind, verb] for kind in kinds)
            kind = self._random.choice([one for one in kinds if self.done[one, verb] == least])
            self.done[kind, verb] += 1
            return kind


@dataclass
class Refusals(Faults):
    """A server that refuses all requests of some verbs.

    Args:
        kinds: what it answers, by verb.
        after: requests of the verb that it does before.
    """

    kinds: dict[str, str] = field(default_factory=dict)
    after: int = 0

    def draw(self, verb: str, path: str) -> str | None:
        """Return what the next request is answered."""
        del path
        with self.lock:
            self.requests[verb] += 1
            return self.kinds.get(verb) if self.requests[verb] > self.after else None


@dataclass
class LateRequest(Faults):
    """One request of a verb, which waits until it is let go.

    Args:
        verb: of the request.
        part: of its path.
        number: of these requests, from 1.
    """

    verb: str = "put"
    part: str = ""
    number: int = 1
    begun: threading.Event = field(default_factory=threading.Event)
    """Set once it waits."""
    let_go: threading.Event = field(default_factory=threading.Event)
    """To be set."""
    ended: threading.Event = field(default_factory=threading.Event)
    """Set once the server has done it."""

    def draw(self, verb: str, path: str) -> str | None:
        """Say whether the next request waits."""
        with self.lock:
            self.requests[verb] += verb == self.verb and self.part in path
            if self.requests[verb] != self.number or verb != self.verb or self.begun.is_set():
                return None
            self.begun.set()
            return "late"


def verb_of(method: str, path: str, headers: Any) -> str:
    """Return the verb of a store that a request of HTTP belongs to."""
    query = parse_qs(urlsplit(path).query, keep_blank_values=True)
    if method == "GET" and ("list-type" in query or "prefix" in query):
        return "list"
    if method == "DELETE" or (method == "POST" and "delete" in query):
        return "delete"
    if method in ("PUT", "POST"):
        if headers.get("If-None-Match"):
            return "put_new"
        return "replace" if headers.get("If-Match") else "put"
    return "get"


class FaultProxy:
    """A proxy on loopback.

    Args:
        upstream: port of the server.
        faults: what it does.
    """

    def __init__(self, upstream: int, faults: Faults) -> None:
        class Handler(_Handler):
            pass

        Handler.upstream, Handler.faults = upstream, faults
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def endpoint(self) -> str:
        """Its URL."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        """Begin to serve."""
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        """End."""
        del error
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    upstream: ClassVar[int]
    faults: ClassVar[Faults]

    def log_message(self, *said: object) -> None:
        """Say nothing."""

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        verb = verb_of(self.command, self.path, self.headers)
        kind = self.faults.draw(verb, self.path)
        if kind in _ERRORS:
            self._refuse(*_ERRORS[kind], body)
        elif kind == "hang":
            time.sleep(self.faults.hang)
            self._cut()
        elif kind == "torn":
            self._tear(body)
            self._cut()
        elif kind == "late":
            assert isinstance(self.faults, LateRequest)
            self.faults.let_go.wait()
            self._forward(body, verb, "lost")
            self.faults.ended.set()
        else:
            self._forward(body, verb, kind)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815  # names of the base class

    def _forward(self, body: bytes, verb: str, kind: str | None) -> None:
        upstream = http.client.HTTPConnection("127.0.0.1", self.upstream, timeout=60)
        headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
        upstream.request(self.command, self.path, body=body, headers=headers)
        answer = upstream.getresponse()
        data = answer.read()
        upstream.close()
        with self.faults.lock:
            self.faults.sent[verb] += len(body)
            self.faults.received[verb] += len(data)
        if kind == "lost":
            self._cut()
            return
        if verb == "list" and answer.status == 200:  # OK
            before = self.faults.lists.get(self.path)
            self.faults.lists[self.path] = data
            data = before if kind == "stale" and before is not None else data
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(data))
        self.send_header("Content-Length", length or "0")
        self.end_headers()
        if self.command == "HEAD":
            return
        if kind == "reset":
            self.wfile.write(data[: len(data) // 2])
            self._cut()
            return
        self.wfile.write(data)

    def _tear(self, body: bytes) -> None:
        """Send half of the request and end."""
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.upstream)) as one:
            lines = [f"{self.command} {self.path} HTTP/1.1"]
            lines += [f"{name}: {value}" for name, value in self.headers.items()]
            one.sendall("\r\n".join([*lines, "", ""]).encode() + body[: len(body) // 2])

    def _refuse(self, status: int, code: str, body: bytes) -> None:
        data = f"<Error><Code>{code}</Code><Message>drawn</Message></Error>"
        if status == 200:  # OK, but for an object, which it names
            key = _KEY.search(body.decode())
            assert key is not None
            data = f"<DeleteResult>{data.replace('<Error>', f'<Error>{key[0]}')}</DeleteResult>"
        self.send_response_only(status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data.encode())

    def _cut(self) -> None:
        """End the connection without an answer, or in the midst of one."""
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
