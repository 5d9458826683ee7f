"""What a bucket of Google Cloud Storage promises where its conditions are other than those of S3.

The server is a small one of our own: it does what the documentation of the XML API says of generations.
"""

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from pipeline.state.probing import probe
from stages.stores.bucket import Bucket
from stages.stores.store import FoundObject, Listed
from stages.stores.url import StoreUrl

pytest.importorskip("obstore")

GENERATION = "x-goog-generation"
DATE = {"Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}


class _Google(BaseHTTPRequestHandler):
    """Objects, each with the number of its last write."""

    protocol_version = "HTTP/1.1"
    objects: ClassVar[dict[str, tuple[bytes, int]]]
    written: ClassVar[list[str]]

    def log_message(self, *said: object) -> None:
        """Say nothing."""

    def _answer(self, status: int, data: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response_only(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _tags(self, key: str) -> dict[str, str]:
        data, number = self.objects[key]
        return {"ETag": f'"{hashlib.sha256(data).hexdigest()}"', GENERATION: str(number), **DATE}

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        assert "If-Match" not in self.headers
        assert "If-None-Match" not in self.headers
        key = self._key()
        wanted = self.headers.get("x-goog-if-generation-match")
        if wanted is not None and int(wanted) != self.objects.get(key, (b"", 0))[1]:
            self._answer(412)
            return
        self.written.append(key)
        self.objects[key] = (data, 1_000 + len(self.written))
        self._answer(200, headers=self._tags(key))

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        if "list-type" in query:
            self._answer(200, self._listing(query.get("prefix", [""])[0]))
        elif self._key() in self.objects:
            self._answer(200, self.objects[self._key()][0], self._tags(self._key()))
        else:
            self._answer(404)

    do_HEAD = do_GET  # noqa: N815  # names of the base class

    def do_DELETE(self) -> None:
        self._answer(404 if self.objects.pop(self._key(), None) is None else 204)

    def _key(self) -> str:
        return unquote(urlsplit(self.path).path).removeprefix("/bucket/")

    def _listing(self, prefix: str) -> bytes:
        found = "".join(
            f"<Contents><Key>{key}</Key><Generation>{number}</Generation><Size>{len(data)}</Size>"
            f"<LastModified>2026-01-01T00:00:00Z</LastModified><ETag>{self._tags(key)['ETag']}</ETag>"
            "</Contents>"
            for key, (data, number) in sorted(self.objects.items())
            if key.startswith(prefix)
        )
        return f"<ListBucketResult>{found}</ListBucketResult>".encode()


@pytest.fixture
def google() -> Iterator[Bucket]:
    """An empty bucket, and its client."""
    from obstore.store import GCSStore  # noqa: PLC0415  # an extra

    class Handler(_Google):
        objects: ClassVar[dict[str, tuple[bytes, int]]] = {}
        written: ClassVar[list[str]] = []

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        client = GCSStore(
            "bucket",
            config={"base_url": f"http://127.0.0.1:{server.server_port}", "bearer_token": "none"},
            client_options={"allow_http": True},
            retry_config={"max_retries": 0},
        )
        yield Bucket(StoreUrl("gs", "bucket", "run"), client)
        server.shutdown()


def test_an_object_is_replaced_by_who_knows_its_tag(google: Bucket) -> None:
    first = google.put_new("lease", b"1")
    assert first is not None
    assert google.put_new("lease", b"2") is None
    second = google.replace("lease", b"2", first)
    assert second is not None
    assert google.replace("lease", b"3", first) is None
    assert google.get("lease") == FoundObject(b"2", second)
    assert google.replace("lease", b"2", first) == second, "it is there: the answer may have been lost"
    assert google.replace("nothing", b"3", first) is None


def test_another_who_writes_between_the_look_and_the_write_wins(
    google: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    import obstore  # noqa: PLC0415  # an extra

    first = google.put_new("lease", b"1")
    assert first is not None
    look = obstore.head

    def head(client: object, name: str) -> object:
        found = look(client, name)  # type: ignore[arg-type]
        obstore.put(google.client, name, b"other", use_multipart=False)
        return found

    monkeypatch.setattr(obstore, "head", head)
    assert google.replace("lease", b"mine", first) is None
    found = google.get("lease")
    assert found is not None
    assert found.data == b"other"


def test_tags_of_puts_answers_and_listings_are_one(google: Bucket) -> None:
    tag = google.put_new("a/b", b"12")
    assert tag is not None
    assert google.get("a/b") == FoundObject(b"12", tag)
    assert list(google.list("a")) == [Listed("a/b", 2, tag)]


def test_what_a_cut_request_left_is_written_over(google: Bucket) -> None:
    google.put_new("a", b"")
    tag = google.put_new("a", b"mine")
    assert google.get("a") == FoundObject(b"mine", str(tag))


def test_what_is_deleted_is_gone_and_may_have_been_gone_before(google: Bucket) -> None:
    for key in ("a", "b", "c"):
        google.put_new(key, b"1")
    google.delete(["never/there", "a", "b", "nor/here"])
    assert [one.key for one in google.list("")] == ["c"]


def test_such_a_store_holds_a_run(google: Bucket) -> None:
    probe(google)  # type: ignore[arg-type]  # it has no `at`, which no probe asks for
    assert list(google.list("")) == []
