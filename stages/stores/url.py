"""URLs of stores: a bucket, and a prefix below which all objects lie.

s3://bucket/a/run    bucket "bucket", prefix "a/run"    extra s3
gs://bucket/run                                         extra gcs
az://container/run                                      extra azure
"""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from stages.errors import ConfigError
from stages.stores.store import is_key

EXTRAS = {"s3": "s3", "gs": "gcs", "az": "azure"}
"""By scheme, the extra of this package that has its client."""
MOST_BYTES = 1_000
"""Of URL and key together: S3 allows keys of 1,024 bytes."""
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
"""One slash is enough: a `Path` of a URL has no more."""

_ANY_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.:-]*?):/+")
"""Of chained URLs, too: simplecache::s3://bucket/x."""
_USER = re.compile(r"\A[^/?#]*@")
_PERHAPS_USER = re.compile(r"[^/?#]*:.*@")
"""A password may have a slash or a question mark, and then nobody knows where it ends."""
_ANY_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s\"'<>]+")


def shown_url(text: str) -> str:
    """Return a URL without user, password, query and fragment, for messages.

    https://me:secret@host:9000/a?key=1  ->  https://host:9000/a

    Args:
        text: a URL, or what was meant as one, or the path that `pathlib` makes of it, with one slash.
    """
    found = _ANY_SCHEME.match(text)
    scheme, rest = (f"{found[1]}://", text[found.end() :]) if found else ("", text)
    rest = _USER.sub("", rest, count=1)
    return scheme + ("..." if _PERHAPS_USER.match(rest) else re.split("[?#]", rest)[0])


def shown_text(text: str) -> str:
    """Return what a library says, with its URLs as `shown_url` has them."""
    return _ANY_URL.sub(lambda found: shown_url(found[0]), text)


def is_store_url(text: str) -> bool:
    """Say whether a place is a URL, of whichever scheme, rather than a path."""
    return _SCHEME.match(text) is not None


@dataclass(frozen=True)
class StoreUrl:
    """A place in a bucket."""

    scheme: str
    bucket: str
    prefix: str
    """Of all keys, without a slash at its end; empty for a whole bucket."""

    @classmethod
    def parse(cls, text: str, *, key: str) -> "StoreUrl":
        """Return what a URL says.

        Args:
            text: the URL.
            key: the option or setting that has it, for messages.

        Raises:
            ConfigError: it is none, is of no store, may hold a secret, or has a name that no key can
                have.
        """
        parts = urlsplit(_SCHEME.sub(r"\1://", text, count=1) if "://" not in text else text)
        shown = shown_url(text)
        if parts.scheme not in EXTRAS:
            raise ConfigError(
                f"{key}: {shown}: no store that a run can lie in; name a folder, or a URL that begins"
                f" with {', '.join(f'{one}://' for one in EXTRAS)}"
            )
        if "@" in parts.netloc:
            raise ConfigError(
                f"{key}: {shown}: the URL names a user or password; leave it out and set the credentials"
                " in the environment"
            )
        if parts.query or parts.fragment:
            raise ConfigError(
                f"{key}: {shown}: the URL has a query or a fragment, which may hold a secret; name it"
                " without one"
            )
        prefix = parts.path.strip("/")
        if not parts.netloc or (prefix and not is_key(prefix)):
            raise ConfigError(
                f"{key}: {shown}: a URL is {parts.scheme}://BUCKET/PREFIX, and each name of the prefix"
                " has letters, digits, dots, hyphens and underscores alone; name another"
            )
        return cls(parts.scheme, parts.netloc, prefix)

    def __str__(self) -> str:
        """Return the URL."""
        return f"{self.scheme}://{self.bucket}" + (f"/{self.prefix}" if self.prefix else "")

    def at(self, key: str) -> "StoreUrl":
        """Return the place of all that lies below a key."""
        return StoreUrl(self.scheme, self.bucket, self.below(key))

    def below(self, key: str) -> str:
        """Return the name of an object in its bucket.

        Raises:
            ConfigError: the URL of the object is too long.
        """
        assert is_key(key), key
        if len(str(self)) + 1 + len(key) > MOST_BYTES:
            raise ConfigError(
                f"{self}/{key}: has more than {MOST_BYTES:,} bytes; stores allow no longer names: use a"
                " shorter URL, or shorter names of datasets and sources"
            )
        return f"{self.prefix}/{key}" if self.prefix else key
