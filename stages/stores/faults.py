"""Faults of a store: what a server refuses, and what it has no answer for now, in one line each.

    no such bucket, no right, another region, conditions not kept   ConfigError   exit code 2
    no network, 429, 5xx, an expired token                          Stopped       exit code 75

A line has the URL, what the server said with its code, and the way out. It never has a credential.
"""

import re
from dataclasses import dataclass

from stages.errors import ConfigError, NoRightError, ShardmillError, Stopped

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_SAID = re.compile(r"<Message>([^<]{1,200})")
_EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired"})
NO_BUCKET = frozenset({"NoSuchBucket", "ContainerNotFound"})
_REGION = frozenset(
    {
        "PermanentRedirect",
        "AuthorizationHeaderMalformed",
        "IllegalLocationConstraintException",
        "TemporaryRedirect",
    }
)
_LATER = "the same command goes on once it answers"
_HTTP, _NO_HTTP = "builder error", "HttpNotAllowed"
_MOVED = "Received redirect without LOCATION"
_REASON = re.compile(r'(?:message|error): "([^"]{1,200})"')
"""In the library's account of what lies below an error: the system's own words."""
_NOT_IMPLEMENTED = 501


@dataclass(frozen=True)
class Answer:
    """What a server said of a request that it did not do."""

    status: int | None
    """Of HTTP; None if no answer came."""
    code: str
    """Its own; empty if it gave none."""
    said: str

    @classmethod
    def of(cls, error: BaseException) -> "Answer":
        """Return what an error of the client library tells of the answer."""
        text = str(error)
        status, code, said = _STATUS.search(text), _CODE.search(text), _SAID.search(text)
        if _HTTP in text:
            return cls(None, _NO_HTTP, "the endpoint is http://")
        if _MOVED in text:
            return cls(301, "PermanentRedirect", "it names no other place")
        return cls(
            int(status[1]) if status else None,
            code[1] if code else "",
            ((said[1] if said else "").strip() or _reason(text)).splitlines()[0],
        )

    @property
    def is_passing(self) -> bool:
        """Say whether the same request may be answered later."""
        status = self.status
        if status == _NOT_IMPLEMENTED or self.code == _NO_HTTP:
            return False
        return (
            status is None
            or status >= 500  # noqa: PLR2004  # errors of the server
            or status in (408, 409, 425, 429)
            or self.code in _EXPIRED
            or self.code in ("SlowDown", "RequestTimeout")
        )


def explained(error: BaseException, url: str) -> ShardmillError:
    """Return the error that says what a user does about a request that was not done.

    Args:
        error: of the client library, after its last attempt.
        url: of the object, or of the bucket.
    """
    answer = Answer.of(error)
    what = f"{url}: {_said(answer)}"
    if answer.code == _NO_HTTP:
        return ConfigError(
            f"{url}: the endpoint is http://, which shows everything to who listens; it is used only if"
            " AWS_ENDPOINT_URL says http:// itself"
        )
    if answer.code in _EXPIRED:
        return Stopped(f"{what}; the credentials have expired: renew them, and run again to resume")
    if answer.is_passing:
        return Stopped(f"{what}; {_LATER}")
    if answer.code not in NO_BUCKET and answer.status in (401, 403):
        return NoRightError(
            f"{what}; the credentials in the environment do not allow it: set those of someone who may"
            " read and list below this URL, and for a run also write and delete"
        )
    return ConfigError(f"{what}; {_way_out(answer)}")


def waiting_for(error: BaseException, url: str) -> str:
    """Say that a request is tried again, and why: for who watches."""
    return f"{url}: {_said(Answer.of(error))}; it is tried again, for some minutes at most"


def _way_out(answer: Answer) -> str:
    """Say what a user does about a request that the server will never do."""
    if answer.code in NO_BUCKET:
        return "there is no such bucket: make it, or name another"
    if answer.code in _REGION or answer.status in (301, 307):
        return "the bucket is in another region: set AWS_REGION to its own"
    if answer.status == _NOT_IMPLEMENTED:
        return "the server cannot do what a run rests on: use another"
    return "the server refuses the request"


def _said(answer: Answer) -> str:
    if answer.status is None:
        return f"no answer ({answer.said})"
    named = f" {answer.code}" if answer.code else ""
    return f"the server said {answer.status}{named} ({answer.said})"


def _reason(text: str) -> str:
    """Return what a library's message says of the cause: "Connection refused"."""
    found = _REASON.findall(text)
    line = text.splitlines()[0] if text else ""
    return (found[-1] if found else line.rpartition(" - ")[2]).strip()[:200] or "no message"
