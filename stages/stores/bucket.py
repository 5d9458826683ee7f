"""Objects in a bucket, by obstore.

A lost answer. A request whose answer does not come may have been done. So what `put_new` and `replace`
find in the way is read back: if it has the same bytes, it is their own. An answer that says "exists"
where nothing is there is asked again.
"""

import os
import re
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from stages.errors import ConfigError, ShardmillError, Stopped
from stages.stores.credentials import profile_credentials
from stages.stores.faults import NO_BUCKET, Answer, explained, waiting_for
from stages.stores.outages import tell_outage
from stages.stores.store import FoundObject, Listed
from stages.stores.url import EXTRAS, StoreUrl, shown_text, shown_url

if TYPE_CHECKING:
    from obstore import Attributes, ObjectMeta, OffsetRange, PutResult, UpdateVersion
    from obstore.store import (
        AzureStore,
        ClientConfig,
        GCSStore,
        RetryConfig,
        S3Config,
        S3Store,
    )

    Client = S3Store | GCSStore | AzureStore
    Mode = Literal["create"] | UpdateVersion

PART_BYTES = 16 << 20
"""A larger file is sent in parts of this size."""
PARTS = 2
"""That are sent at once."""
BUFFER_BYTES = 4 * PART_BYTES + (8 << 20)
"""What a process that reads and writes holds for it, at most."""
CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".json": "application/json",
    ".md": "text/markdown; charset=utf-8",
    ".prom": "text/plain; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""By which a browser opens a report from the store; other objects have the server's own."""
TIMEOUT = "60s"
"""Of one request."""
ATTEMPTS = 9
"""Of one request, beside the client's own attempts."""
PATIENCE = 120.0
"""Seconds after a first failure in which a request is tried again: each attempt may be silent long."""
_WAITS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 9.0, 9.0)
_SAID_FROM = 3
"""Attempts after which who watches is told that a request waits."""
_RETRIES: "RetryConfig" = {
    "max_retries": 4,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {
        "init_backoff": timedelta(milliseconds=100),
        "max_backoff": timedelta(seconds=5),
        "base": 2,
    },
}
_ENDPOINT = re.compile(r"https?://[^\s/?#@]+/?")
_Value = TypeVar("_Value")


class Bucket:
    """A bucket, below a prefix, as the process that made this asks it.

    Args:
        url: the place.
        client: of the bucket.
        answered: has this process once the client has had an answer, so that it has had credentials.
    """

    def __init__(self, url: StoreUrl, client: "Client", answered: set[int] | None = None) -> None:
        self.url = url
        self.client = client
        self._answered = set() if answered is None else answered

    @property
    def place(self) -> str:
        """The URL, for messages."""
        return str(self.url)

    def put(self, key: str, file: Path) -> str:
        """Write a file under a key, whole or not at all; it replaces what is there."""
        import obstore  # noqa: PLC0415  # an extra

        kind = CONTENT_TYPES.get(Path(key).suffix)
        attributes: Attributes | None = None if kind is None else {"Content-Type": kind}

        def send() -> str:
            large = file.stat().st_size > PART_BYTES
            result = obstore.put(
                self.client,
                self._name(key),
                file,
                attributes=attributes,
                use_multipart=large,
                chunk_size=PART_BYTES,
                max_concurrency=PARTS,
            )
            return _tag(result, key)

        return self._asked(key, send)

    def put_new(self, key: str, data: bytes) -> str | None:
        """Write an object that is not there yet; None if there is one of other bytes."""
        return self._conditional(key, data, "create")

    def replace(self, key: str, data: bytes, tag: str) -> str | None:
        """Write over an object that has a tag; None if it has another, or is gone."""
        mode = self._still(key, tag)
        if mode is not None:
            return self._conditional(key, data, mode)
        found = self.get(key)
        return found.tag if found is not None and found.data == data else None

    def list(self, prefix: str) -> Iterator[Listed]:
        """Yield the objects below a prefix, sorted by key."""
        import obstore  # noqa: PLC0415  # an extra

        below = self._name(prefix) if prefix else self.url.prefix
        cut = len(self.url.prefix) + 1 if self.url.prefix else 0

        def ask() -> list[Listed]:
            pages = obstore.list(self.client, prefix=below or None, chunk_size=1_000)
            return sorted(
                Listed(one["path"][cut:], one["size"], _quoted(one["e_tag"] or ""))
                for page in pages
                for one in page
            )

        yield from self._asked(prefix, ask)

    def delete(self, keys: Collection[str]) -> None:
        """Remove objects; one that is not there is no error."""
        import obstore  # noqa: PLC0415  # an extra

        names = [self._name(key) for key in keys]

        def remove(some: Sequence[str]) -> None:
            try:
                obstore.delete(self.client, some)
            except FileNotFoundError as error:  # of Azure and Google, for one that is not there
                if self.url.scheme == "s3" or Answer.of(error).code in NO_BUCKET:
                    raise
                if len(some) > 1:
                    for name in some:
                        remove([name])

        if names:
            self._asked("", lambda: remove(names))

    def _name(self, key: str) -> str:
        return self.url.below(key)

    def get(self, key: str, begin: int = 0, end: int | None = None) -> FoundObject | None:
        """Return the bytes of an object, or a range of them; None if there is no such object."""
        import obstore  # noqa: PLC0415  # an extra

        if end is not None and end <= begin:
            begin, end, wanted = 0, 1, slice(0)
        else:
            wanted = slice(None)
        part = None if (begin, end) == (0, None) else _range(begin, end)

        def ask() -> FoundObject | None:
            try:
                result = obstore.get(
                    self.client, self._name(key), options={"range": part} if part else None
                )
                return FoundObject(bytes(result.bytes())[wanted], _tag(result.meta, key))
            except FileNotFoundError as error:
                if Answer.of(error).code in NO_BUCKET:
                    raise
                return None
            except obstore.exceptions.BaseError as error:
                if Answer.of(error).status == 416:  # noqa: PLR2004  # the range begins behind the end
                    return FoundObject(b"", "")
                raise

        return self._asked(key, ask)

    def _still(self, key: str, tag: str) -> "UpdateVersion | None":
        """Return the condition that an object still has a tag; None if it has another, or is gone.

        Google Cloud Storage knows no `If-Match`: its condition is the number of a write, `generation`,
        which the client leaves out of listings. So a tag is an ETag there too, and the number of the
        write is asked for.
        """
        import obstore  # noqa: PLC0415  # an extra

        if self.url.scheme != "gs":
            return {"e_tag": tag}

        def ask() -> "UpdateVersion | None":
            try:
                found = obstore.head(self.client, self._name(key))
            except FileNotFoundError:
                return None
            same = found["e_tag"] == tag
            return {"e_tag": tag, "version": found["version"]} if same else None

        return self._asked(key, ask)

    def _conditional(self, key: str, data: bytes, mode: "Mode") -> str | None:
        """Write an object on a condition; what is in the way is read back."""
        import obstore  # noqa: PLC0415  # an extra

        end = 0.0
        for attempt in range(ATTEMPTS):
            try:
                return _tag(
                    obstore.put(self.client, self._name(key), data, mode=mode, use_multipart=False), key
                )
            except (obstore.exceptions.BaseError, OSError) as error:
                refused = isinstance(
                    error,
                    obstore.exceptions.AlreadyExistsError
                    | obstore.exceptions.PreconditionError
                    | FileNotFoundError,
                )
                if not refused and not Answer.of(error).is_passing(answered=self._has_answered):
                    raise self._explained(error, key) from error
                last = error
            found = self.get(key)
            if found is not None and not found.data and data:
                # a request that was cut before its first byte left this
                mode = self._still(key, found.tag) or mode
                continue
            if found is not None and (found[0] == data or refused):
                return found[1] if found[0] == data else None
            if found is None and mode != "create":
                return None
            end = end or time.monotonic() + PATIENCE
            if time.monotonic() > end:
                break
            _wait(attempt)
        raise Stopped(
            f"{self._at(key)}: {attempt + 1} times neither written nor refused; the server says:"
            f" {Answer.of(last).said}. Run again to resume"
        ) from last

    def _asked(self, key: str, ask: Callable[[], _Value]) -> _Value:
        """Ask, a few times if need be.

        Raises:
            ConfigError: the server refuses it.
            Stopped: it has no answer.
        """
        import obstore  # noqa: PLC0415  # an extra

        end = 0.0
        for attempt in range(ATTEMPTS):
            try:
                value = ask()
            except (obstore.exceptions.BaseError, FileNotFoundError) as error:
                end = end or time.monotonic() + PATIENCE
                is_last = attempt + 1 == ATTEMPTS or time.monotonic() > end
                if is_last or not Answer.of(error).is_passing(answered=self._has_answered):
                    raise self._explained(error, key) from error
                if attempt >= _SAID_FROM:
                    tell_outage(waiting_for(error, self._at(key)))
            else:
                self._answered.add(os.getpid())
                return value
            _wait(attempt)
        raise AssertionError("the last attempt returns or raises")

    @property
    def _has_answered(self) -> bool:
        return os.getpid() in self._answered

    def _explained(self, error: BaseException, key: str) -> ShardmillError:
        return explained(error, self._at(key), answered=self._has_answered)

    def _at(self, key: str) -> str:
        return f"{self.place}/{key}" if key else self.place


def _wait(attempt: int) -> None:
    time.sleep(_WAITS[min(attempt, len(_WAITS) - 1)])


def _tag(result: "PutResult | ObjectMeta", key: str) -> str:
    tag = result["e_tag"]
    if not tag:
        raise ConfigError(
            f"{key}: the server gives objects no ETag, on which a run rests; use another server"
        )
    return str(tag)


def _quoted(tag: str) -> str:
    """Return a tag as answers about one object have it; listings of Azure leave the quotes out."""
    return tag if not tag or tag.endswith('"') else f'"{tag}"'


def _range(begin: int, end: int | None) -> "tuple[int, int] | OffsetRange":
    return {"offset": begin} if end is None else (begin, end)


@dataclass(frozen=True)
class Endpoint:
    """Which server is asked: no secret, so a driver tells it to its workers."""

    url: str = ""
    """Empty is that of the cloud."""
    region: str = ""

    @classmethod
    def of_environment(cls) -> "Endpoint":
        """Return what the environment of this process says."""
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or ""
        return cls(os.environ.get("AWS_ENDPOINT_URL", "").strip(), region)


def client_of(url: StoreUrl, endpoint: Endpoint) -> "Client":
    """Make a client; the credentials are those that this process finds in its environment.

    Raises:
        ConfigError: the extra is not installed, or the credentials of a profile cannot be read.
    """
    if endpoint.url and not _ENDPOINT.fullmatch(endpoint.url):
        raise ConfigError(
            f"AWS_ENDPOINT_URL = {shown_url(endpoint.url)!r}: must be http://HOST:PORT or"
            " https://HOST:PORT, without user, path and query; set it so, or unset it for the cloud's"
            " own"
        )
    try:
        return _client(url, endpoint)
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(
            f"{url}: no client can be made: {_first_line(shown_text(str(error)))}; set what it needs in"
            " the environment"
        ) from error


def _client(url: StoreUrl, endpoint: Endpoint) -> "Client":
    try:
        from obstore import store  # noqa: PLC0415  # an extra
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{url}: the client of {url.scheme}:// is not installed: pip install"
            f" 'shardmill[{EXTRAS[url.scheme]}]'"
        ) from error
    client: ClientConfig = {
        "allow_http": endpoint.url.startswith("http://"),
        "timeout": TIMEOUT,
        "connect_timeout": "10s",
    }
    if url.scheme == "gs":
        return store.GCSStore(url.bucket, client_options=client, retry_config=_RETRIES)
    if url.scheme == "az":
        return store.AzureStore(url.bucket, client_options=client, retry_config=_RETRIES)
    options: S3Config = {
        "checksum_algorithm": "SHA256"
    }  # a bucket with a retention takes no write without
    if endpoint.url:
        options["endpoint"] = endpoint.url
    if endpoint.region:
        options["region"] = endpoint.region
    return store.S3Store(
        url.bucket,
        config=options,
        client_options=client,
        retry_config=_RETRIES,
        credential_provider=profile_credentials(url),
    )


def _first_line(text: str) -> str:
    """Return what a library says in its first line."""
    return text.strip().splitlines()[0][:200] if text.strip() else "no reason is given"
