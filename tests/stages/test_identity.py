"""What identities promise.

The id of a place and the digest of a text are the same bytes in every run, and two places never share
an id because their parts run together.
"""

from itertools import product

import pytest

from stages.identity import DIGEST_BYTES, ID_BYTES, content_digest, document_id


@pytest.mark.parametrize(
    ("source", "path", "position", "expected"),
    [
        ("udhr", "en.jsonl", 0, "0384bcb3e7121d2118dd06e98dac0160"),
        ("udhr", "fr/é.jsonl", 123456789012, "ba4a4651dd89934497eb81814174d946"),
    ],
)
def test_ids_are_golden(source: str, path: str, position: int, expected: str) -> None:
    identity = document_id(source, path, position)
    assert identity.hex() == expected
    assert len(identity) == ID_BYTES


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "99aa06d3014798d86001c324468d497f"),  # XXH3-128 of nothing, as published
        ("héllo\n", "8e7219aef8b01f9a54d0a4adeaadf7ce"),
    ],
)
def test_content_digests_are_golden(text: str, expected: str) -> None:
    assert content_digest(text).hex() == expected
    assert len(content_digest(text)) == DIGEST_BYTES


def test_every_part_of_a_place_counts() -> None:
    places = list(product(("a", "a1", "1"), ("b", "1b", "b1", "b/1"), (0, 1, 10, 2**40)))
    assert len({document_id(*place) for place in places}) == len(places) == 48
