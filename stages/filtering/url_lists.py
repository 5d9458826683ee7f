r"""Block lists: files of domains and of parts of addresses, as they are published.

    example.org    .example.org    *.example.org    https://example.org/    a domain and all below it
    0.0.0.0 example.org www.example.org                                     hosts
    ||example.org^                                                          Adblock
    address=/example.org/0.0.0.0    server=/example.org/    local=/../      dnsmasq
    local-zone: "example.org" always_nxdomain                               Unbound
    example.org CNAME .                                                     response policy zones

Empty lines are passed over, as are notes: what follows # at the beginning or after white space, and in
lists of domains lines that begin with ! ; or [Adblock. A line of another form says nothing of a host as
a whole: it is counted and shown, and blocks nothing.

Hosts: the names of machines in addresses, in one spelling.

    https://me@Bücher.Example:80/x  ->  xn--bcher-kva.example

Case, the form of Unicode and dots do not matter, nor whether a name is written in its own script or in
ASCII (Punycode). Names are mapped as browsers do: UTS 46, not transitional, without the checks of
lengths and hyphens, so that no address of a real page is without a host.

Source: Unicode Technical Standard 46, section 4, as the package `idna` has it; Punycode: RFC 3492.
"""

import ipaddress
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from stages.cleaning.text import clean_text
from stages.errors import DataError

_SCHEME = re.compile(
    r"(?i)\A(?:[a-z][a-z0-9+.-]*:(?=[/\\]{2})|(?:https?|ftp|wss?):(?![0-9]+(?:[/?#\\]|\Z)))"
)
_AUTHORITY = re.compile(r"[^/?#\\]*")
_PORT = re.compile(r":[0-9]*\Z")


def host_of(address: str) -> str:
    """Return the host of an address in its one spelling, or "" if it has none.

    "https://me@A.org:80/x" -> "a.org"; "a.org:80/x" -> "a.org"; "mailto:me@a.org" -> "a.org"
    """
    address = address.strip()
    rest = address[scheme.end() :] if (scheme := _SCHEME.match(address)) else address
    authority = _AUTHORITY.match(rest.lstrip("/\\")).group()  # type: ignore[union-attr]  # maybe of nothing
    host = authority.rpartition("@")[2]
    return one_spelling(host if host.endswith("]") else _PORT.sub("", host))


def one_spelling(host: str) -> str:
    """Return a host's name in small letters of ASCII, or an IP address in its short form.

    "Bücher.Example." -> "xn--bcher-kva.example"; "[2001:DB8::0:1]" -> "2001:db8::1"
    """
    host = unquote(host) if "%" in host else host
    if host.startswith("["):
        return _short(host.strip("[]"))
    if not host.isascii():
        host = ".".join(_in_ascii(label) for label in _mapped(host).split("."))
    return host.lower().strip(".")


def _mapped(host: str) -> str:
    import idna  # noqa: PLC0415  # few hosts need its tables

    try:
        return idna.uts46_remap(host, std3_rules=False, transitional=False)
    except idna.IDNAError:  # a character that no name may have
        return host.lower()


def _in_ascii(label: str) -> str:
    return label if label.isascii() else f"xn--{label.encode('punycode').decode()}"


def _short(address: str) -> str:
    try:
        return ipaddress.ip_address(address).compressed
    except ValueError:
        return address.lower()


_NOTE = re.compile(r"(?:\A|\s)#.*")
_REMARKS = ("!", ";", "[adblock")
_ADBLOCK = re.compile(
    r"\|\|([^/^|*$]+)\^?(?:\|?\$(?:all|doc|document|important)(?:,(?:all|doc|document|important))*)?\Z"
)
_DNSMASQ = re.compile(r"(?:address=/([^=]+)/[^/]*|(?:server|local)=/([^=]+)/)\Z")
"""A server behind the last slash is asked, so nothing is blocked."""
_UNBOUND = re.compile(
    r'local-zone:\s*"?([^"\s]+)"?\s+'
    r"(?:always_(?:deny|nodata|null|nxdomain|refuse)|static|refuse|deny|redirect|inform_deny)\Z"
)
_POLICY_ZONE = re.compile(r"(\S+)\s+(?:IN\s+)?CNAME\s+\.\Z", re.IGNORECASE)
_PLAIN = re.compile(r"(?:[a-z][a-z0-9+.-]*://)?([^/@?#\s]+?)/?\Z", re.IGNORECASE)
_LABEL = re.compile(r"(?!-)[\w-]{1,63}\Z", re.ASCII)
_MOST = 253
"""Characters of a host's name, in ASCII."""


@dataclass(frozen=True)
class UnreadLine:
    """A line of a list that has no known form."""

    place: str
    """The file."""
    line: int
    """From 1."""
    text: str


def read_domains(places: Sequence[str]) -> tuple[tuple[str, ...], list[UnreadLine]]:
    """Return the hosts of lists in one spelling, each once, and the lines that name none.

    Raises:
        DataError: a list cannot be read, is no UTF-8, or has no entry.
    """
    found: dict[str, None] = {}
    unread = []
    for place in places:
        before, lines = len(found), 0
        for number, line in _lines(place):
            if line.lower().startswith(_REMARKS):
                continue
            hosts = hosts_of_line(line)
            lines += bool(hosts)
            found.update(dict.fromkeys(hosts))
            if not hosts:
                unread.append(UnreadLine(place, number, line))
        if before == len(found) and not lines:
            raise _empty(place, next((one for one in unread if one.place == place), None))
    return tuple(found), unread


def read_parts(places: Sequence[str]) -> tuple[str, ...]:
    """Return the texts of lists in small letters and NFC, each once.

    Raises:
        DataError: a list cannot be read, is no UTF-8, or has no entry.
    """
    found: dict[str, None] = {}
    for place in places:
        parts = [part for _, line in _lines(place) if (part := lowered(line).strip())]
        if not parts:
            raise _empty(place, None)
        found.update(dict.fromkeys(parts))
    return tuple(found)


def lowered(text: str) -> str:
    """Return a text as parts of addresses are compared: in small letters and NFC."""
    return clean_text(text.lower())


def hosts_of_line(line: str) -> list[str]:
    """Return the hosts that a line of a list names, in one spelling; none if it has no known form.

    "0.0.0.0 A.org b.org" -> ["a.org", "b.org"]; "||a.org^" -> ["a.org"]; "a.org/x" -> []
    """
    first, *more = line.split()
    if more and _is_address(first):
        named = more
    elif found := _ADBLOCK.match(line) or _UNBOUND.match(line) or _POLICY_ZONE.match(line):
        named = [found.group(1)]
    elif found := _DNSMASQ.match(line):
        named = (found.group(1) or found.group(2)).split("/")
    elif _is_address(line):
        named = [line]
    elif found := _PLAIN.match(line):
        named = [found.group(1)]
    else:
        return []
    hosts = [_host(name) for name in named]
    return hosts if all(hosts) else []


def _host(name: str) -> str:
    """Return a name of a list in one spelling; "" if it can be none of a host."""
    name = name.removeprefix("*.").removeprefix(".")
    if _is_address(name):
        return one_spelling(name if name.startswith("[") or ":" not in name else f"[{name}]")
    host = one_spelling(name)
    return host if len(host) <= _MOST and all(map(_LABEL.match, host.split("."))) else ""


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return False
    return True


def _lines(place: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a list that say something, without notes, with their numbers."""
    try:
        data = Path(place).read_bytes()
    except OSError as error:
        raise DataError(f"{place}: cannot be read: {error.strerror}") from error
    for number, raw in enumerate(data.removeprefix(b"\xef\xbb\xbf").splitlines(), 1):
        try:
            line = _NOTE.sub("", raw.decode()).strip()
        except UnicodeDecodeError as error:
            raise DataError(
                f"{place}: line {number}: is no UTF-8 ({error.reason}); write the list as UTF-8"
            ) from error
        if "\0" in line:
            raise DataError(
                f"{place}: line {number}: has the character NUL, as UTF-16 does; write the list as UTF-8"
            )
        if line:
            yield number, line


def _empty(place: str, unread: UnreadLine | None) -> DataError:
    if unread is None:
        return DataError(
            f"{place}: has no entry; write one a line, or take the file out of the run file"
        )
    shown = f"line {unread.line}: {unread.text[:80]!r}"
    return DataError(f"{place}: no line names a host, such as {shown}; write one a line: example.org")
