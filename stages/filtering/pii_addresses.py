"""Public IP addresses in texts: no private, local or documentation ones.

    8.8.8.8        2a00:1450:4001:82a::200e

A colon behind an address of IPv6 is text, and so is what follows it: "2001:4860:4860::8888: timed out".
So is a colon before it, behind a word that is no group of its own: "ip6:2001:4860:4860::8888".
"""

import ipaddress
import re
from collections.abc import Iterator

_IPV4 = re.compile(r"[0-9](?<![\w.].)[0-9]{0,2}(?:\.[0-9]{1,3}){3}(?!\w|\.\d)", re.ASCII)
_IPV6 = re.compile(r"[23](?<![\w.].)[0-9A-Fa-f]{3}:[0-9A-Fa-f:]{2,41}(?![0-9A-Fa-f:])", re.ASCII)
_GROUP = re.compile(r"(?:(?<!\w)[0-9A-Fa-f]{1,4}|:):\Z", re.ASCII)
"""What makes an address behind it the end of another."""
_LONGEST_GROUP = 6
"""Characters that say whether there is one."""
_IPV4_SIGN, _IPV6_SIGN = re.compile(r"\.[0-9]{1,3}\."), re.compile(r":[0-9A-Fa-f:]")
"""What is in every one, and in few texts."""
_WORD = re.compile(r"\w", re.ASCII)


def find_addresses(text: str) -> Iterator[tuple[int, int]]:
    """Yield where public IP addresses begin and end."""
    spans = []
    if _IPV4_SIGN.search(text):
        spans += [found.span() for found in _IPV4.finditer(text) if _is_public(found[0])]
    if _IPV6_SIGN.search(text):
        spans += [
            (found.start(), end) for found in _IPV6.finditer(text) if (end := _ipv6_end(text, found))
        ]
    return iter(sorted(spans))


def _ipv6_end(text: str, found: re.Match[str]) -> int:
    """Return where the address ends that a run of hexadecimal digits and colons begins with, or 0."""
    address, start = found[0], found.start()
    if _GROUP.search(text, max(0, start - _LONGEST_GROUP), start):
        return 0
    if _WORD.match(text, found.end()):  # "::8888:error", of which the e is a digit
        address = address[: address.rfind(":") + 1]
        if address.endswith("::"):
            return 0
    if address.endswith(":") and not address.endswith("::"):
        address = address[:-1]
    if not _is_public(address):  # with a port behind it
        address = address[: address.rfind(":")]
        if address.endswith(":"):
            return 0
    return start + len(address) if _is_public(address) else 0


def _is_public(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_global
    except ValueError:  # a leading zero, too many groups
        return False
