"""Faults of a store: what a server refuses, and what it has no answer for now, in one line each.

    no such bucket, no right, no credentials, another region,
    conditions not kept                                             ConfigError   exit code 2
    no network, 429, 5xx, an expired token                          Stopped       exit code 75

A line has the URL, what the server said with its code, and the way out. It never has a credential.
"""

import re
from dataclasses import dataclass

from stages.errors import ConfigError, NoRightError, ShardmillError, Stopped
from stages.stores.credentials import CREDENTIALS, is_of_credentials
from stages.stores.url import shown_text

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
_DELETED = re.compile(r"DeleteObjects request failed for key \S+: (.*?) \(code: (\w*)\)", re.DOTALL)
"""An answer of S3 to a delete of some objects: its status is OK, and each object has its own code."""
_DENIED = "AccessDenied"
_NO_CREDENTIALS = "NoCredentials"
_OK, _NOT_IMPLEMENTED = 200, 501


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
        text = shown_text(str(error))
        if deleted := _DELETED.search(text):
            return cls(_OK, deleted[2], _first_line(deleted[1]))
        status, code, said = _STATUS.search(text), _CODE.search(text), _SAID.search(text)
        if _HTTP in text:
            return cls(None, _NO_HTTP, "the endpoint is http://")
        if _MOVED in text:
            return cls(301, "PermanentRedirect", "it names no other place")
        line = _first_line((said[1] if said else "").strip() or _reason(text))
        number = int(status[1]) if status else _OK if code else None
        if is_of_credentials(text) and not _is_busy(number):
            return cls(number, _NO_CREDENTIALS, line)
        return cls(number, code[1] if code else "", line)

    def is_passing(self, *, answered: bool) -> bool:
        """Say whether the same request may be answered later.

        Args:
            answered: whether the same client has had an answer, so that it has had credentials.
        """
        status = self.status
        if self.code == _NO_CREDENTIALS:
            return answered
        if status == _NOT_IMPLEMENTED or self.code == _NO_HTTP:
            return False
        if status == _OK:
            return self.code != _DENIED
        return (
            status is None
            or _is_busy(status)
            or status in (408, 409, 425)
            or self.code in _EXPIRED
            or self.code in ("SlowDown", "RequestTimeout")
        )


def explained(error: BaseException, url: str, *, answered: bool) -> ShardmillError:
    """Return the error that says what a user does about a request that was not done.

    Args:
        error: of the client library, after its last attempt.
        url: of the object, or of the bucket.
        answered: whether the same client has had an answer.
    """
    answer = Answer.of(error)
    what = f"{url}: {_said(answer)}"
    if answer.code == _NO_HTTP:
        return ConfigError(
            f"{url}: the endpoint is http://, which shows everything to who listens; it is used only if"
            " AWS_ENDPOINT_URL says http:// itself"
        )
    if answer.code == _NO_CREDENTIALS and not answered:
        return ConfigError(
            f"{url}: no credentials found: the environment has none, and the service that gives them to"
            f" machines does not either ({answer.said}); set {CREDENTIALS[url.partition('://')[0]]}"
        )
    if answer.code in _EXPIRED:
        return Stopped(f"{what}; the credentials have expired: renew them, and run again to resume")
    if answer.is_passing(answered=answered):
        return Stopped(f"{what}; {_LATER}")
    if answer.code == _DENIED or (answer.code not in NO_BUCKET and answer.status in (401, 403)):
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


def _is_busy(status: int | None) -> bool:
    """Say whether a status is of a server that cannot answer now."""
    return status is not None and (status >= 500 or status == 429)  # noqa: PLR2004  # of HTTP


def _first_line(text: str) -> str:
    return text.splitlines()[0] if text else "no message"


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
