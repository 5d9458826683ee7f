"""A web server on the loopback for benchmarks/changing_inputs.py: a folder's files, by ranges of bytes.

From some GET on it fails as servers do: it drops the connection in the midst of the body, sends a part
of it as if it were all, or answers 503. Whether it says ETag and Last-Modified can be chosen.
"""

import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

FAULTS = ("drops", "truncates", "unavailable")
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


@dataclass
class FolderServer:
    """What a server does, and has done."""

    folder: Path
    stamps: bool = True
    """Whether it says what changes with a file."""
    ranges: bool = True
    """Whether it gives parts of a file."""
    fault: str | None = None
    """One of `FAULTS`, while it lasts."""
    gets: int = 0
    faults: int = 0
    """GETs that failed."""
    port: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        """Return the URL of the folder."""
        return f"http://127.0.0.1:{self.port}"

    def count(self, fault: str | None) -> None:
        """Count one GET."""
        with self._lock:
            self.gets += 1
            self.faults += fault is not None


@contextmanager
def serving(folder: Path, *, stamps: bool = True, ranges: bool = True) -> Iterator[FolderServer]:
    """Serve a folder's files until the block ends."""
    state = FolderServer(folder, stamps, ranges)

    class Handler(_FolderHandler):
        server_state = state

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        state.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield state
        finally:
            server.shutdown()
            thread.join()


class _FolderHandler(BaseHTTPRequestHandler):
    """Answers HEAD and GET, whole or of one range."""

    protocol_version = "HTTP/1.1"
    server_state: FolderServer

    def do_HEAD(self) -> None:  # the name that the library asks for
        """Say how large a file is."""
        if self.server_state.fault == "unavailable":
            self.send_error(HTTPStatus.SERVICE_UNAVAILABLE)
            return
        data = self._data()
        if data is not None:
            self._headers(HTTPStatus.OK, data, len(data))

    def do_GET(self) -> None:  # likewise
        """Send a file or a range of it, or fail."""
        state = self.server_state
        fault = state.fault
        state.count(fault)
        data = self._data()
        if data is None:
            return
        if fault == "unavailable":
            self.send_error(HTTPStatus.SERVICE_UNAVAILABLE)
            return
        first, last = self._range(len(data))
        if first >= len(data) > 0:
            self.send_error(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
            return
        body = data[first : last + 1]
        if fault == "truncates":
            body = body[: len(body) // 2]
            last = first + len(body) - 1
        partial = "Range" in self.headers and state.ranges
        status = HTTPStatus.PARTIAL_CONTENT if partial else HTTPStatus.OK
        more = {"Content-Range": f"bytes {first}-{last}/{len(data)}"} if partial else {}
        self._headers(status, data, len(body), more)
        if fault == "drops":
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
            return
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002  # the library's name
        """Say nothing."""

    def _data(self) -> bytes | None:
        try:
            return (self.server_state.folder / self.path.lstrip("/")).read_bytes()
        except OSError:
            self.send_error(HTTPStatus.NOT_FOUND)
            return None

    def _headers(
        self, status: HTTPStatus, data: bytes, length: int, more: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        self.send_header("Accept-Ranges", "bytes" if self.server_state.ranges else "none")
        if self.server_state.stamps:
            self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()[:16]}"')
        for name, value in (more or {}).items():
            self.send_header(name, value)
        self.end_headers()

    def _range(self, size: int) -> tuple[int, int]:
        found = _RANGE.fullmatch(self.headers.get("Range", ""))
        if found is None or not self.server_state.ranges:
            return 0, size - 1
        return int(found[1]), min(size - 1, int(found[2])) if found[2] else size - 1
