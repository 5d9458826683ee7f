"""What URLs of stores promise: what cannot be a place for a run is refused, no secret is repeated."""

import pytest

from stages.errors import ConfigError
from stages.stores.store import is_key
from stages.stores.url import MOST_BYTES, StoreUrl, is_store_url, shown_text, shown_url


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("s3://bucket/a/run", ("s3", "bucket", "a/run")),
        ("gs://bucket/run/", ("gs", "bucket", "run")),
        ("az://container", ("az", "container", "")),
    ],
)
def test_a_url_is_a_bucket_and_a_prefix(text: str, parts: tuple[str, str, str]) -> None:
    url = StoreUrl.parse(text, key="--output")
    assert (url.scheme, url.bucket, url.prefix) == parts
    assert str(url) == text.rstrip("/")
    assert url.below("log/1") == f"{parts[2]}/log/1".lstrip("/")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("http://host/run", "--output: http://host/run: no store that a run can lie in"),
        ("s3://user:pass@bucket/run", "--output: s3://bucket/run: the URL names a user"),
        ("s3://user:pa/ss@bucket/run", "--output: s3://...: a URL is s3://BUCKET/PREFIX"),
        ("s3://bucket/a@b", "--output: s3://bucket/a@b: a URL is s3://BUCKET/PREFIX"),
        ("s3://bucket/run?token=secret", "--output: s3://bucket/run: the URL has a query"),
        ("s3://bucket/run#secret", "--output: s3://bucket/run: the URL has a query"),
        ("s3:///run", "a URL is s3://BUCKET/PREFIX"),
        ("s3://bucket/a//b", "a URL is s3://BUCKET/PREFIX"),
        ("s3://bucket/../b", "a URL is s3://BUCKET/PREFIX"),
        ("s3://bucket/a b", "a URL is s3://BUCKET/PREFIX"),
    ],
)
def test_what_is_no_place_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said.replace("?", "[?]")) as found:
        StoreUrl.parse(text, key="--output")
    assert "secret" not in str(found.value).replace("may hold a secret", "")
    assert "pass" not in str(found.value).replace("password", "")


def test_a_name_that_is_too_long_is_refused() -> None:
    url = StoreUrl("s3", "bucket", "run")
    room = MOST_BYTES - len("s3://bucket/run/")
    assert url.below("k" * room)
    with pytest.raises(ConfigError, match="has more than 1,000 bytes"):
        url.below("k" * (room + 1))


def test_paths_are_no_urls_and_urls_of_any_scheme_are() -> None:
    assert [
        is_store_url(one) for one in ("run", "/run", "./s3", "a/b:c", "s3://b/x", "s3:/b/x", "x://y")
    ] == [
        *([False] * 4),
        *([True] * 3),
    ]
    assert [is_key(one) for one in ("a/b.npy", "a", "", "/a", "a/", "a//b", "a/../b", "a b")] == [
        *([True] * 2),
        *([False] * 6),
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://me:hunter2@host:9000/a", "https://host:9000/a"),
        ("https://host:9000/a?sig=hunter2#hunter2", "https://host:9000/a"),
        ("me:hunter2@host:9000", "host:9000"),
        ("https://me:hun/ter2@host", "https://..."),
        ("https://me:hun?ter2@host", "https://..."),
        ("https://me:a@hunter2@host", "https://host"),
        ("s3://bucket/a@b", "s3://bucket/a@b"),
        ("", ""),
    ],
)
def test_what_is_shown_of_a_url_has_no_user_and_no_query(text: str, shown: str) -> None:
    assert shown_url(text) == shown
    if "://" in text:
        assert shown_text(f"a '{text}', and why?") == f"a '{shown}', and why?"
