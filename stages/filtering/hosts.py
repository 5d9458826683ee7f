"""Hosts: the names of machines in addresses, in one spelling.

    https://me@Bücher.Example:80/x  ->  xn--bcher-kva.example

Case, the form of Unicode and dots do not matter, nor whether a name is written in its own script or in
ASCII (Punycode). Names are mapped as browsers do: UTS 46, not transitional, without the checks of
lengths and hyphens, so that no address of a real page is without a host.

Source: Unicode Technical Standard 46, section 4, as the package `idna` has it; Punycode: RFC 3492.
"""

import ipaddress
import re
from urllib.parse import unquote

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
