"""What block lists promise: a domain and all below it, parts of addresses, lists that stay the same."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from stages.errors import ConfigError, DataError
from stages.filtering.filter import Document, FilterConfig, Gone
from stages.filtering.table import filter_of
from stages.filtering.url import UrlLists, host_of

LISTS = {"domains": ("domains.txt",), "substrings": ("parts.txt",)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two lists."""
    (tmp_path / "domains.txt").write_text("# domains\nExample.org\n\n*.bad.net\r\nlocalhost\n")
    (tmp_path / "parts.txt").write_text("/casino\nüber\n", encoding="utf-8")
    return tmp_path


def resolved(folder: Path, **settings: object) -> FilterConfig:
    """Return the settings with the digest of their lists."""
    config = UrlLists.model_validate({**LISTS, **settings})
    return filter_of(config).resolve(config, folder, "filters.0 (kind = 'url')")


def rule(config: FilterConfig, address: object) -> str | None:
    """Return the rule that an address breaks, or None."""
    verdict = filter_of(config).open(config)(Document(b"text", 4, values={"url": address}))
    assert verdict is None or isinstance(verdict, Gone)
    return None if verdict is None else verdict.rule


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("https://Me:pw@A.Example.org:80/x?y#z", "a.example.org"),
        ("example.org/path", "example.org"),
        ("//example.org", "example.org"),
        ("http://example.org.", "example.org"),
        ("http://[2001:db8::1]/x", "2001"),
        ("mailto:me@example.org", "example.org"),
        ("http://x/?u=http://example.org", "x"),
        ("", ""),
    ],
)
def test_the_host_of_an_address(address: str, host: str) -> None:
    assert host_of(address) == host


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("http://example.org/", "domain"),
        ("https://www.example.ORG/x", "domain"),
        ("http://bad.net", "domain"),
        ("http://a.bad.net:8080/", "domain"),
        ("http://localhost/x", "domain"),
        ("http://notexample.org/", None),
        ("http://example.org.uk/", None),
        ("http://good.net/?next=example.org", None),
        ("http://good.net/Casino/1", "substring"),
        ("http://good.net/ÜBER", "substring"),
        ("", None),
        (None, None),
        (7, None),
    ],
)
def test_an_address_goes_by_its_domain_or_a_part(
    folder: Path, address: object, expected: str | None
) -> None:
    assert rule(resolved(folder), address) == expected


def test_a_document_without_an_address_goes_if_asked_for(folder: Path) -> None:
    assert rule(resolved(folder, missing="drop"), None) == "missing"


def test_the_digest_is_of_the_entries_and_not_of_their_place(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "domains.txt").write_text("bad")
    (other / "parts.txt").write_bytes((folder / "parts.txt").read_bytes())
    (other / "more.txt").write_bytes((folder / "domains.txt").read_bytes())
    digest = resolved(folder).model_dump()["digest"]
    assert resolved(other, domains=("more.txt",)).model_dump()["digest"] == digest
    assert resolved(other).model_dump()["digest"] != digest
    swapped = resolved(folder, domains=("parts.txt",), substrings=("domains.txt",))
    assert swapped.model_dump()["digest"] != digest
    with pytest.raises(ConfigError, match=r"filters.0 \(kind = 'url'\).digest = 'x': the lists have"):
        resolved(folder, digest="x")


def test_a_list_that_changed_since_the_plan_is_refused(folder: Path) -> None:
    config = resolved(folder)
    (folder / "domains.txt").write_text("other.org\n")
    with pytest.raises(DataError, match="changed since the run was planned; run again"):
        filter_of(config).open(config)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none.txt", "none.txt: no such file"),
        (".", "no such file"),
        ("latin.txt", "latin.txt: is no UTF-8"),
    ],
)
def test_a_list_that_cannot_be_read_is_refused_by_name(folder: Path, name: str, message: str) -> None:
    (folder / "latin.txt").write_bytes(b"\xff\n")
    with pytest.raises(ConfigError, match=message):
        resolved(folder, domains=(name,))


def test_a_filter_without_lists_is_refused() -> None:
    with pytest.raises(ValidationError, match="has no list; name files in domains, substrings or both"):
        UrlLists()
