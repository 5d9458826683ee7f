"""What writes to S3 promise: each has the SHA-256 of its bytes, which a bucket with a retention demands.

The server is a small one of our own, which looks at headers alone.
"""

import base64
import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from stages.stores.bucket import PART_BYTES
from stages.stores.objects import ObjectStore
from stages.stores.url import StoreUrl
from tests.material.store_server import CREDENTIALS

pytest.importorskip("obstore")


class _Listener(BaseHTTPRequestHandler):
    """Takes all writes and keeps none."""

    protocol_version = "HTTP/1.1"
    writes: ClassVar[list[tuple[str, bool]]]

    def log_message(self, *said: object) -> None:
        """Say nothing."""

    def _write(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        verb = "part" if "partNumber" in self.path else "whole"
        answer = b""
        if self.command == "POST":
            verb = "begin" if "uploads" in self.path else "end"
            answer = b"<Result><UploadId>1</UploadId><ETag>1</ETag></Result>"
        digest = base64.b64encode(hashlib.sha256(data).digest()).decode()
        self.writes.append((verb, self.headers.get("x-amz-checksum-sha256") == digest))
        self.send_response_only(200)
        self.send_header("ETag", '"1"')
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_PUT = do_POST = _write  # noqa: N815  # names of the base class


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, bool]]]:
    """What is written: how, and whether it had its digest."""

    class Handler(_Listener):
        writes: ClassVar[list[tuple[str, bool]]] = []

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        for name, value in CREDENTIALS.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        yield Handler.writes
        server.shutdown()


def test_every_write_has_its_digest(writes: list[tuple[str, bool]], tmp_path: Path) -> None:
    store, file = ObjectStore(StoreUrl("s3", "bucket", "run")), tmp_path / "file"
    file.write_bytes(b"1")
    store.put("a", file)
    store.put_new("b", b"2")
    store.replace("b", b"3", "1")
    assert writes == [("whole", True)] * 3
    writes.clear()
    with file.open("wb") as large:
        large.truncate(PART_BYTES + 1)
    store.put("c", file)
    assert sorted(writes) == [("begin", False), ("end", False), ("part", True), ("part", True)]
