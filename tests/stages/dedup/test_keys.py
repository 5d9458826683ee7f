"""What keys promise: one value in two spellings is one key, two values never are."""

from decimal import Decimal

import numpy as np
import pytest

from stages.dedup.keys import NO_KEY, key_digest, key_text, normal_url, salted

SAME = [
    ("http://example.org/a", "https://www.example.org/a"),
    ("HTTP://Example.ORG:80", "http://example.org/"),
    ("https://example.org:443/a#top", "https://example.org/a"),
    ("https://example.org/%7euser/%2f", "https://example.org/~user/%2F"),
    ("http://example.org.:/a?b=1", "http://example.org/a?b=1"),
    ("http://example.org?b", "http://example.org/?b"),
]
DIFFERENT = [
    ("http://example.org/a", "http://example.org/a/"),
    ("http://example.org/a", "http://example.org/A"),
    ("http://example.org/a?b=1&c=2", "http://example.org/a?c=2&b=1"),
    ("http://example.org/a?b=1", "http://example.org/a"),
    ("http://example.org/a", "http://example.org:8080/a"),
    ("http://example.org/a", "http://en.example.org/a"),
    ("http://example.org/#!/a", "http://example.org/#!/b"),
    ("http://example.org/a%2fb", "http://example.org/a/b"),
    ("http://me@example.org/", "http://you@example.org/"),
    ("ftp://example.org/a", "http://example.org/a"),
    ("http://www.org/a", "http://org/a"),
    ("http://[::1]:80/a", "http://[::2]:80/a"),
    ("doi:10.1/a", "doi:10.1/A"),
    ("example.org/a", "example.org/b"),
    ("http://example.org/#/a", "http://example.org/#/b"),
]


@pytest.mark.parametrize(("a", "b"), SAME)
def test_two_spellings_of_a_page_are_one_url(a: str, b: str) -> None:
    assert normal_url(a) == normal_url(b)
    assert normal_url(normal_url(a) or "") == normal_url(a)


@pytest.mark.parametrize(("a", "b"), DIFFERENT)
def test_two_pages_are_two_urls(a: str, b: str) -> None:
    assert None is not normal_url(a) != normal_url(b) is not None


@pytest.mark.parametrize(
    "text", ["n/a", "N/A", "-", "unknown", "None", "7", "0.55", "http://", "/", "a b", "//"]
)
def test_what_names_no_page_is_no_url(text: str) -> None:
    assert normal_url(text) is None


@pytest.mark.parametrize(
    "text", ["/wiki/A", "example.org", "localhost.net:80/a", "doi:10.1/a", "urn:uuid:7"]
)
def test_a_page_without_a_scheme_or_a_host_is_compared_as_it_is(text: str) -> None:
    assert normal_url(text) == text


def test_values_are_compared_as_written_out() -> None:
    values = [" 10.1/x ", 7, "7", 7.0, 0.5, "", "  ", None, True, [1], {}, float("nan"), 2.0**60]
    none = [None] * 8
    assert [key_text(value) for value in values] == ["10.1/x", "7", "7", "7", "0.5", *none]
    assert [key_text(Decimal(value)) for value in ("7.00", "1E+1", "NaN")] == ["7", "10", None]
    assert key_text(10**30) == "1" + "0" * 30
    assert key_digest(None) == NO_KEY
    assert key_digest("a") != key_digest("b")
    assert len(key_digest("\ud800")) == 16


def test_salted_hashes_meet_within_a_source_alone() -> None:
    keys = np.array([1, 2, 1, 2**64 - 1], np.uint64)
    a, b = salted(keys, "a"), salted(keys, "b")
    assert a[0] == a[2] != a[1]
    assert not set(a.tolist()) & set(b.tolist())
    assert salted(np.column_stack([keys, keys]), "a").shape == (4, 2)
