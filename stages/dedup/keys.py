"""Keys: values of records by which documents are duplicates whatever their texts: URLs, DOIs, own names.

    HTTP://www.Example.org:80/a?b=1#top   ->   https://example.org/a?b=1

Two URLs are one only where both mean the same page: host and scheme in any case, http or https, "www."
before the host, the default port, a fragment. Path, its last slash, its case and the query stay as they
are, because servers give different pages for them; so do fragments that begin with "#!" or "#/".
What names no page, such as "n/a" or "http://", is no URL.

Source: RFC 3986, 6.2.2 and 6.2.3, of which we take what needs no knowledge of the server; http for
https, and "www.", are conventions beside it.
"""

import math
import re
from decimal import Decimal

import numpy as np
import xxhash
from numpy.typing import NDArray

NO_KEY = bytes(16)
"""In place of the digest of a document without a value."""
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^#]*)(#.*)?", re.DOTALL)
_OTHER = re.compile(r"/[^/].*|[A-Za-z][A-Za-z0-9+.-]+:\S+|[^\s/?#]+\.[^\W\d_]{2,}([:/?#].*)?", re.DOTALL)
"""A path, a name such as `urn:isbn:1`, a host with what follows it."""
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_DEFAULT_PORTS = {"http": "80", "https": "443", "ftp": "21"}
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_LARGE = float(1 << 53)
"""Numbers from here on may have lost digits."""


def key_text(value: object) -> str | None:
    """Return a value as the text that is compared, or None if there is none.

    " 10.1/x " -> "10.1/x"    7 -> "7"    0.5 -> "0.5"    "" -> None    null, lists, objects -> None
    """
    if isinstance(value, str):
        return value.strip() or None
    if isinstance(value, Decimal):
        return format(value.normalize(), "f") if value.is_finite() else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float):
        if not math.isfinite(value) or abs(value) >= _LARGE:
            return None
        return str(int(value)) if value.is_integer() else repr(value)
    return str(value)


def normal_url(text: str) -> str | None:
    """Return one spelling of a URL, that without a scheme and host as it is; None for what is none.

    "HTTP://A.org" -> "https://a.org/"    "a.org/b" -> "a.org/b"    "n/a", "unknown", "http://" -> None
    """
    found = _URL.fullmatch(text)
    if found is None:
        return text if _OTHER.fullmatch(text) else None
    scheme, place, rest, fragment = found[1].lower(), found[2], found[3], found[4] or ""
    user, at, host = place.rpartition("@")
    host, colon, port = _host_and_port(host)
    host = host.lower().removesuffix(".")
    if not host and scheme != "file":
        return None
    if port == _DEFAULT_PORTS.get(scheme) or not port:
        colon, port = "", ""
    if scheme in ("http", "https"):
        scheme, host = "https", host.removeprefix("www.") if host.count(".") > 1 else host
    if not rest.startswith("/"):
        rest = f"/{rest}"
    kept = fragment if fragment.startswith(("#!", "#/")) else ""
    return f"{scheme}://{user}{at}{host}{colon}{port}{_ESCAPE.sub(_escape, rest)}{kept}"


def _host_and_port(place: str) -> tuple[str, str, str]:
    host, colon, port = place.rpartition(":")
    return (host, colon, port) if colon and (port.isdigit() or not port) else (place, "", "")


def _escape(found: re.Match[str]) -> str:
    """Return an escaped byte in one spelling: %7e -> ~, %2f -> %2F."""
    character = chr(int(found[1], 16))
    return character if character in _UNRESERVED else found[0].upper()


def key_digest(text: str | None) -> bytes:
    """Return the 128-bit digest of a value, `NO_KEY` for none."""
    if text is None:
        return NO_KEY
    return xxhash.xxh3_128_digest(text.encode("utf-8", "surrogatepass"))


def salted(keys: NDArray[np.uint64], salt: str) -> NDArray[np.uint64]:
    """Return hashes that are equal among those of one salt as before, and never to those of another.

    Args:
        keys: (N,) or (N, 2) uint64 hashes.
        salt: such as the name of a source.
    """
    data = xxhash.xxh3_128_digest(f"within\0{salt}".encode())
    halves = np.frombuffer(data, "<u8").astype(np.uint64)
    mixed: NDArray[np.uint64] = keys ^ (halves[0] if keys.ndim == 1 else halves)
    return mixed
