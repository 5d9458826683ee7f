"""What the filter of personal data promises: what has its form is found, what has not is left alone."""

import ipaddress
import itertools
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from stages.filtering.filter import Changed, Gone
from stages.filtering.pii import FINDERS, DataKind, PersonalData, replaced
from tests.campaign import examples
from tests.stages.filtering.texts import judged

ALL: tuple[DataKind, ...] = ("email", "ip", "phone", "key")
PEM = "-----BEGIN RSA PRIVATE " + "KEY-----\nMIIE+a/b=\n-----END RSA PRIVATE " + "KEY-----"
FOUND: list[tuple[DataKind, str]] = [
    ("email", "me@example.org"),
    ("email", "First.Last+tag@mail.example.co.uk"),
    ("email", "a_b%c'd@x-y.museum"),
    ("ip", "8.8.8.8"),
    ("ip", "172.217.16.142"),
    ("ip", "2a00:1450:4001:82a::200e"),
    ("phone", "+49 (0)30 901820-0"),
    ("phone", "+442079460958"),
    ("phone", "(212) 555-0123"),
    ("phone", "212-555-0123"),
    ("phone", "1-800-555-0199"),
    ("key", "AKIA" + "ABCDEFGH01234567"),
    ("key", "ghp_" + "a1" * 18),
    ("key", "AIza" + "b2_-c" * 7),
    ("key", "sk-proj-" + "abc123" * 8),
    ("key", "xoxb-" + "123456789-abc"),
    ("key", "sk_" + "live_" + "0123456789abcdef"),
    ("key", "hf_" + "Ab" * 17),
    ("key", "eyJ" + "hbGciOiJI" * 2 + ".eyJ" + "zdWIiOiIx" * 2 + "." + "abc_def-12" * 2),
    ("key", PEM),
    *[("key", f"{start}{'A1b2' * 9}") for start in ("gho_", "ghu_", "ghs_", "ghr_", "npm_", "glpat-")],
    ("key", "github_" + "pat_" + "a1_B" * 16),
    ("key", "ASIA" + "ABCDEFGH01234567"),
    ("key", "rk_" + "test_" + "0123456789abcdef"),
]
LEFT = [
    "a@b", "@user", "me@localhost", "x @example.org", "@example.org", "1.2.3", "256.1.1.1", "1.2.3.4.5",
    "v8.8.8.8", "10.0.0.1", "192.168.1.1", "127.0.0.1", "203.0.113.5", "08.8.8.8", "std::vector", "A::B",
    "12:30:45", "fe80::1", "2001:db8::1", "2024-05-17", "1,234,567", "555-0123", "+1", "12345678901234",
    "3.14159", "1999-2000-2001", "sk-learn", "AKIA123", "eyJhbGci", "ghp_short", "--------",
    "task-force-of-the-nation",
]  # fmt: skip
COSTLY = ["a" * 50 + "@", "1.", "8.8.8.", "+1 ", "2a00:", "eyJaaaaaaaaaa.", "a.b@c.", "-----BEGIN "]


OCTET = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
PLAIN: dict[DataKind, tuple[str, ...]] = {
    "ip": (
        rf"(?<![\w.])(?:{OCTET}\.){{3}}{OCTET}(?!\w|\.\d)",
        r"(?<![\w:.])[23][0-9A-Fa-f]{3}:[0-9A-Fa-f:]{2,34}(?<!:)(?![\w:])",
    ),
    "phone": (
        (
            r"(?<![\w+])\+\d(?:[ ().-]{0,2}\d){7,14}(?!\d)|(?<![\w+.-])(?:1[-. ])?"
            r"(?:\([2-9]\d\d\) ?|[2-9]\d\d[-. ])[2-9]\d\d[-. ]\d{4}(?![\w-]|\.\d)"
        ),
    ),
}
"""The patterns as one would write them, which try every character. What one finds hides nothing that
another does: 2a00:1450:1.29.9.9 is no address, but ends in one."""


@settings(deadline=None, max_examples=examples(1000))
@example("2a00:1450:1.29.9.9")
@given(
    st.lists(
        st.one_of(
            st.sampled_from(["+", "(", ")", "-", ".", " ", ":", "\n", "1", "x", "_", "é", "猫", "::"]),
            st.sampled_from(["212", "555", "0123", "+49 30 90182", "(212) 555-0123", "8.8.8.8", "300"]),
            st.sampled_from(["1.2", "2a00:1450", "3fff", "25", "9.9.9"]),
        ),
        max_size=12,
    ).map("".join)
)
def test_patterns_that_are_fast_find_what_plain_ones_find(text: str) -> None:
    for kind, patterns in PLAIN.items():
        found = [re.finditer(pattern, text, re.ASCII) for pattern in patterns]
        spans = sorted(one.span() for one in itertools.chain(*found))
        if kind == "ip":
            spans = [span for span in spans if is_public(text[slice(*span)])]
        assert list(FINDERS[kind](text)) == spans


def is_public(address: str) -> bool:
    """Say whether it is an address that anybody may reach."""
    try:
        return ipaddress.ip_address(address).is_global
    except ValueError:
        return False


@pytest.mark.parametrize("text", [text for kind, text in FOUND if kind == "key"])
def test_every_key_has_a_part_by_which_it_is_looked_for(text: str) -> None:
    assert list(FINDERS["key"](f"é {text}")) == [(2, 2 + len(text))]


@pytest.mark.parametrize(("kind", "text"), FOUND)
@pytest.mark.parametrize("frame", ["{}", "see {}, or ({}).", "\n{}\n", "«{}» 猫{} "])
def test_what_has_its_form_is_replaced_and_counted(kind: DataKind, text: str, frame: str) -> None:
    whole = frame.format(text, text)
    left, counts = replaced(whole, ALL)
    sign = f"[{kind.upper()}]"
    if frame.startswith("«") and kind != "email":  # a letter before it: part of another word
        assert left.startswith(f"«{sign}»")
        return
    assert left == frame.format(sign, sign).replace("猫[EMAIL]", "猫[EMAIL]")
    assert counts == {kind: whole.count(text)}


@pytest.mark.parametrize("text", LEFT)
def test_what_has_another_form_is_left_alone(text: str) -> None:
    assert replaced(f"see {text} there", ALL) == (f"see {text} there", {})


@pytest.mark.parametrize("kind", ALL)
def test_only_what_is_asked_for_is_found(kind: DataKind) -> None:
    whole = " ; ".join(text for _, text in FOUND)
    _, counts = replaced(whole, (kind,))
    assert counts == {kind: sum(one == kind for one, _ in FOUND)}


def test_texts_are_changed_or_documents_dropped() -> None:
    text = "Write to me@example.org or to you@example.org, from 8.8.8.8."
    verdict = judged(PersonalData(), text)
    left = b"Write to [EMAIL] or to [EMAIL], from [IP]."
    assert verdict == Changed(left, counts={"email": 2, "ip": 1})
    dropped = judged(PersonalData(action="drop"), text)
    assert dropped == Gone("email", "email: 2, ip: 1; none may be found", excerpt=left)
    assert judged(PersonalData(action="drop"), "nothing") is None


@settings(deadline=None, derandomize=True, max_examples=examples(300))
@given(
    st.text(st.sampled_from("ab1.@:+-() 猫[]\n8"), max_size=60),
    st.sampled_from([text for _, text in FOUND]),
)
def test_replacing_twice_is_replacing_once_and_touches_nothing_else(text: str, data: str) -> None:
    left, _ = replaced(f"{text} {data} {text}", ALL)
    assert replaced(left, ALL) == (left, {})
    for kind in FINDERS:
        left = left.replace(f"[{kind.upper()}]", "")
    assert len(left) <= len(f"{text} {data} {text}")


@pytest.mark.parametrize("part", COSTLY)
def test_a_long_text_that_nearly_matches_everywhere_comes_to_an_end(part: str) -> None:
    text = part * (1_000_000 // len(part))
    left, _ = replaced(text, ALL)
    assert len(left) <= len(text)


def test_one_that_is_named_twice_is_refused() -> None:
    with pytest.raises(ValidationError, match="names one twice"):
        PersonalData(find=("email", "email"))
    with pytest.raises(ValidationError, match="'email', 'ip', 'phone' or 'key'"):
        PersonalData.model_validate({"find": ["name"]})
