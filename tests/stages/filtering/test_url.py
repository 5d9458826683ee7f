"""What block lists promise: a domain and all below it, parts of addresses, lists that stay the same."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from stages.errors import ConfigError, DataError
from stages.filtering.filter import Document, FilterConfig, Removal
from stages.filtering.table import filter_of
from stages.filtering.url import UrlLists
from stages.filtering.url_lists import host_of, hosts_of_line

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
    assert verdict is None or isinstance(verdict, Removal)
    return None if verdict is None else verdict.rule


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("https://Me:pw@A.Example.org:80/x?y#z", "a.example.org"),
        ("example.org/path", "example.org"),
        ("//example.org", "example.org"),
        ("http://example.org.", "example.org"),
        ("http://[2001:DB8::0:1]:80/x", "2001:db8::1"),
        ("bad.example:8080/x", "bad.example"),
        ("https:example.org/x", "example.org"),
        ("HTTPS:\\\\example.org\\x", "example.org"),
        ("http://me:80@example.org:", "example.org"),
        ("http://b\u00fccher.example/", "xn--bcher-kva.example"),
        ("http://bu\u0308cher.example/", "xn--bcher-kva.example"),
        ("http://XN--BCHER-KVA.example/", "xn--bcher-kva.example"),
        ("http://b%C3%BCcher.example/", "xn--bcher-kva.example"),
        ("http://\u4f8b\u5b50\u3002\uff43om", "xn--fsqu00a.com"),
        ("http://\u2603.net/", "xn--n3h.net"),
        ("http://a_b.example/", "a_b.example"),
        ("http://\ud7a3\u2028.x/", "xn--tvg3833e.x"),
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
        ("latin.txt", "latin.txt: line 1: is no UTF-8"),
    ],
)
def test_a_list_that_cannot_be_read_is_refused_by_name(folder: Path, name: str, message: str) -> None:
    (folder / "latin.txt").write_bytes(b"\xff\n")
    with pytest.raises(ConfigError, match=message):
        resolved(folder, domains=(name,))


def test_a_filter_without_lists_is_refused() -> None:
    with pytest.raises(ValidationError, match="has no list; name files in domains, substrings or both"):
        UrlLists()


@pytest.mark.parametrize(
    ("line", "hosts"),
    [
        ("example.org", ["example.org"]),
        ("Example.ORG.", ["example.org"]),
        (".example.org", ["example.org"]),
        ("*.example.org", ["example.org"]),
        ("http://example.org/", ["example.org"]),
        ("https://example.org", ["example.org"]),
        ("0.0.0.0 example.org", ["example.org"]),
        ("127.0.0.1\texample.org www.example.org", ["example.org", "www.example.org"]),
        ("::1 ip6-localhost", ["ip6-localhost"]),
        ("fe80::1%lo0 localhost", ["localhost"]),
        ("0.0.0.0 0.0.0.0", ["0.0.0.0"]),  # noqa: S104
        ("1.2.3.4", ["1.2.3.4"]),
        ("2001:DB8::0:1", ["2001:db8::1"]),
        ("[2001:db8::1]", ["2001:db8::1"]),
        ("||example.org^", ["example.org"]),
        ("||example.org^$all,important", ["example.org"]),
        ("address=/example.org/0.0.0.0", ["example.org"]),
        ("server=/example.org/www.example.org/", ["example.org", "www.example.org"]),
        ("server=/example.org/10.0.0.1", []),
        ("server=/example.org/#", []),
        ("local=/example.org/", ["example.org"]),
        ('local-zone: "example.org" always_nxdomain', ["example.org"]),
        ('local-zone: "example.org" always_transparent', []),
        ('local-zone: "example.org." static', ["example.org"]),
        ("example.org CNAME .", ["example.org"]),
        ("*.example.org IN CNAME .", ["example.org"]),
        ("bücher.example", ["xn--bcher-kva.example"]),
        ("xn--bcher-kva.example", ["xn--bcher-kva.example"]),
        ("a_b.example", ["a_b.example"]),
        ("example.org/path", []),
        ("http://example.org/path", []),
        ("example.org:8080", []),
        ("bad.example:8080/x", []),
        ("me@example.org", []),
        ("||example.org^$domain=a.org", []),
        ("||example.org/path", []),
        ("@@||example.org^", []),
        ("##.advert", []),
        ("example.org##.advert", []),
        ("ads*.example.org", []),
        ("example..org", []),
        ("two words", []),
        ("/ads[0-9]/", []),
        ("a" * 64 + ".org", []),
        (".".join(["a" * 50] * 6), []),
    ],
)
def test_a_line_of_a_list_names_hosts_by_its_form(line: str, hosts: list[str]) -> None:
    assert hosts_of_line(line) == hosts


def test_lists_are_read_with_their_marks_and_notes(folder: Path) -> None:
    text = "\ufeffone.org\n# two.org\nthree.org # three\n! four\n[Adblock Plus 2.0]\n; five\n\n"
    (folder / "domains.txt").write_text(text, encoding="utf-8")
    (folder / "parts.txt").write_text("\ufeff/casino # bets\n#x\n!y\n", encoding="utf-8")
    config = resolved(folder)
    assert rule(config, "http://one.org/") == rule(config, "http://a.three.org/") == "domain"
    assert rule(config, "http://two.org/") is None
    assert rule(config, "http://x.org/casino") == rule(config, "http://x.org/!y") == "substring"
    assert filter_of(config).warning(config) is None


def test_a_text_that_cleaning_leaves_empty_is_in_no_address(folder: Path) -> None:
    (folder / "domains.txt").write_text("one.org\n")
    (folder / "parts.txt").write_text("casino\n\x1a\n\ufeff\n \x7f \n", encoding="utf-8")
    config = resolved(folder)
    assert rule(config, "http://x.org/casino") == "substring"
    assert rule(config, "http://x.org/") is None
    (folder / "parts.txt").write_text("\x1a\n")
    with pytest.raises(ConfigError, match=r"parts\.txt: has no entry"):
        resolved(folder)


@pytest.mark.parametrize("name", ["domains.txt", "parts.txt"])
def test_a_list_of_another_encoding_is_refused(folder: Path, name: str) -> None:
    (folder / "domains.txt").write_text("one.org\n")
    (folder / "parts.txt").write_text("casino\n")
    (folder / name).write_bytes("a.org\nb.org\n".encode("utf-16-le"))
    with pytest.raises(ConfigError, match=f"{name}: line 1: has the character NUL, as UTF-16 does"):
        resolved(folder)


def test_lines_that_name_no_host_are_counted_and_shown(folder: Path) -> None:
    (folder / "domains.txt").write_text("one.org\n@@||two.org^\nthree.org/x\n")
    config = resolved(folder)
    assert filter_of(config).warning(config) == (
        "2 lines of the lists of domains name no host and block nothing, such as domains.txt line 2:"
        " '@@||two.org^'; domains.txt line 3: 'three.org/x'; see docs/filters.md for the forms"
    )
    (folder / "domains.txt").write_text("one.org # a note\ntwo.org#x\n")
    assert "1 line of the lists of domains names no host and blocks nothing" in str(
        filter_of(config).warning(config)
    )
    (folder / "domains.txt").unlink()
    assert filter_of(config).warning(config) is None


@pytest.mark.parametrize("name", ["domains", "substrings"])
@pytest.mark.parametrize("data", [b"", b"\n\n", b"# a note\n", b"\xef\xbb\xbf"])
def test_a_list_without_an_entry_is_refused(folder: Path, name: str, data: bytes) -> None:
    (folder / "empty.txt").write_bytes(data)
    with pytest.raises(ConfigError, match=r"empty\.txt: has no entry"):
        resolved(folder, **{name: ("empty.txt",)})


def test_a_list_that_names_no_host_is_refused_with_its_line(folder: Path) -> None:
    (folder / "domains.txt").write_text("# paths\nexample.org/path\n")
    with pytest.raises(ConfigError, match=r"no line names a host, such as line 2: 'example\.org/path'"):
        resolved(folder)


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1", "utf-16-le"])
def test_a_list_of_another_encoding_is_refused_by_line(folder: Path, encoding: str) -> None:
    (folder / "domains.txt").write_text("a\u00fc.org\nb.org\n", encoding=encoding)
    with pytest.raises(ConfigError, match=r"domains\.txt: (line 1: is no UTF-8|no line names a host)"):
        resolved(folder)


@pytest.mark.parametrize("written", ["/cafe\u0301", "/caf\u00e9"])
@pytest.mark.parametrize("address", ["http://a.org/CAFE\u0301", "http://a.org/caf\u00e9"])
def test_parts_of_addresses_match_in_either_form(folder: Path, written: str, address: str) -> None:
    (folder / "parts.txt").write_text(written, encoding="utf-8")
    assert rule(resolved(folder), address) == "substring"
