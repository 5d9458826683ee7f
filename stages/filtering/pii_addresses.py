"""Addresses and keys: what is found of personal data by its form.

    8.8.8.8        2a00:1450:4001:82a::200e

A colon behind an address of IPv6 is text, and so is what follows it: "2001:4860:4860::8888: timed out".
So is a colon before it, behind a word that is no group of its own: "ip6:2001:4860:4860::8888".

Keys in texts, by the forms that those who give them out have published.

    AWS AKIA.. ASIA.. ABIA.. ACCA..    DigitalOcean dop_v1_..    Docker dckr_pat_..
    GitHub ghp_.. github_pat_..    GitLab glpat-..    Google AIza.. GOCSPX-..    Groq gsk_..
    Hugging Face hf_..    npm npm_..    PyPI pypi-AgE..    RubyGems rubygems_..
    SendGrid SG. and two parts    Shopify shpat_..    Stripe sk_live_.. rk_test_..
    JSON web tokens      eyJ.. and two parts
    OpenAI and others    sk- and letters and digits without a hyphen, or sk-proj-, sk-ant-.. and more
    Slack                xoxb-, xoxp-.. and a number; xoxo- and three numbers; xapp-
    private keys         in PEM, also with the headers of RFC 1421, and in the armour of OpenPGP

Those that end in EXAMPLE are of documentation, and a private key has 32 characters of base64 in a row. A
key of a form with hyphens has a digit, and is long or has 12 letters and digits in a row, so that words
with hyphens are none: sk-toggleable__label-arrow, sk-ant-colony-optimization-2020. One that begins with
ABIA or ACCA has a digit, because ACCA and 16 letters may be DNA. What follows a key is no letter, digit
or underscore of ASCII, nor a hyphen and one of these: ghp_..-ით ends before the hyphen.
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


_PLAIN = (
    *("PRIVATE KEY", "AKIA", "ASIA", "ABIA", "ACCA", "AIza", "sk-", "xox", "xapp-", "eyJ"),
    *("glpat-", "GOCSPX-", "pypi-AgE", "SG."),
)
_UNDERSCORED = (
    *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "hf_", "npm_", "gsk_", "shp", "rubygems_"),
    *("_pat_", "_v1_", "k_live_", "k_test_"),
)
"""Each key has one of these parts. Most texts have none, and many have no underscore either."""
_KEY = re.compile(
    r"-----BEGIN ([A-Z ]{0,20}PRIVATE KEY(?: BLOCK)?)-----(?=(?:(?!-----).){0,2000}?[A-Za-z0-9+/]{32})"
    r"(?:(?!-----).){1,20000}-----END \1-----"
    r"|(?<!\w)(?:"
    r"(?:AKIA|ASIA)(?![0-9A-Z]{9}EXAMPLE)[0-9A-Z]{16}|(?:ABIA|ACCA)(?=[A-Z]{0,15}[2-7])[A-Z2-7]{16}"
    r"|gh[pousr]_[A-Za-z0-9]{36,251}|github_pat_[A-Za-z0-9_]{60,100}|glpat-(?=[a-z_-]{0,60}[A-Z0-9])[A-Za-z0-9_-]{20,64}(?<!-)"
    r"|AIza[0-9A-Za-z_-]{35}|GOCSPX-[0-9A-Za-z_-]{28}|hf_[A-Za-z0-9]{30,64}|npm_[A-Za-z0-9]{36}"
    r"|pypi-AgE(?:IcHlwaS5vcmc|NdGVzdC5weXBpLm9yZw)[A-Za-z0-9_-]{50,1000}(?<!-)|rubygems_[a-f0-9]{48}"
    r"|dckr_pat_[A-Za-z0-9_-]{27}|do[opr]_v1_[a-f0-9]{64}|gsk_[A-Za-z0-9]{52}"
    r"|SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}|shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}"
    r"|sk-(?=[a-zA-Z]*[0-9])[A-Za-z0-9]{20,200}"
    r"|sk-(?:proj|svcacct|service|admin|None|ant|or|lf|live|test)-"
    r"(?=[A-Za-z_-]{0,100}[0-9])(?=[\w-]{40}|[\w-]{0,28}?(?=[A-Za-z]{0,11}[0-9])[A-Za-z0-9]{12})"
    r"[A-Za-z0-9_-]{20,200}(?<!-)"
    r"|xox[abeprs]-[0-9]{1,14}-[A-Za-z0-9-]{3,250}(?<!-)"
    r"|xox[ep]\.xox[bp]-[0-9]{1,14}-[A-Za-z0-9-]{3,250}(?<!-)"
    r"|xoxo(?:-[0-9]{1,14}){3}-[A-Fa-f0-9]{8,250}"
    r"|xapp-[0-9]-[A-Z0-9]{5,20}-[0-9]{5,20}-[a-f0-9]{20,100}"
    r"|[rs]k_(?:live|test)_[0-9A-Za-z]{16,250}"
    r"|eyJ[A-Za-z0-9_-]{10,4000}\.eyJ[A-Za-z0-9_-]{10,8000}\.[A-Za-z0-9_-]{10,1000}(?<!-)"
    r")(?!\w|-[\w-])",
    re.ASCII | re.DOTALL,
)


def find_keys(text: str) -> Iterator[tuple[int, int]]:
    """Yield where keys begin and end."""
    parts = (*_PLAIN, *_UNDERSCORED) if "_" in text else _PLAIN
    if not any(part in text for part in parts):
        return iter(())
    return (found.span() for found in _KEY.finditer(text))
