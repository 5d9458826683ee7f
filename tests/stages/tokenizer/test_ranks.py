"""What files of ranks promise.

They give the ids that tiktoken's rule gives, whatever the order of the ranks; special tokens have the
ids that the model's own code gives, and no text gives them.
"""

import base64
import hashlib
import json
import random
import re
from collections.abc import Mapping
from functools import cache
from itertools import pairwise

import pytest

from stages.errors import ConfigError, FormatError
from stages.tokenizer.codec import Tokenizer
from stages.tokenizer.existing import TokenizerKind, describe, existing_tokenizer
from stages.tokenizer.framing import FrameIds
from stages.tokenizer.huggingface_content import BYTE_OF
from stages.tokenizer.ranks.byte_level_file import RankedPieces, byte_level_file, merges_of_ranks
from stages.tokenizer.ranks.encodings import ENCODINGS, TiktokenConfig
from stages.tokenizer.ranks.tiktoken import read_tiktoken
from stages.tokenizer.recognised import tokenizer_file
from stages.tokenizer.roles import SpecialPieces, find_roles
from stages.tokenizer.splitting.pre_tokenizer import byte_level_splits
from stages.tokenizer.stress import stress_texts
from tests.stages.tokenizer.existing_files import data_of, texts

PATTERN = r" ?[a-zA-Z]+| ?[0-9]{1,3}| ?[^\sa-zA-Z0-9]+|\s+(?!\S)|\s+"
"""Means the same to Python's `re`."""
END = "<|endoftext|>"
BYTES = {bytes([byte]): byte for byte in range(256)}


def by_the_rule(text: str, ranks: Mapping[bytes, int], pattern: str = PATTERN) -> list[int]:
    """Return the ids that tiktoken's rule gives, step by step."""
    found: list[int] = []
    for word in re.findall(pattern, text):
        parts = [bytes([byte]) for byte in word.encode()]
        while word.encode() not in ranks:
            pairs = [one + two for one, two in pairwise(parts)]
            known = [(ranks[pair], place) for place, pair in enumerate(pairs) if pair in ranks]
            if not known:
                break
            place = min(known)[1]
            parts[place : place + 2] = [pairs[place]]
        found += [ranks[part] for part in ([word.encode()] if word.encode() in ranks else parts)]
    return found


@cache
def trained_ranks() -> dict[bytes, int]:
    """Return the ranks of a small tokenizer as its training found them."""
    vocab = json.loads(data_of("gpt2"))["model"]["vocab"]
    pieces = sorted((number, piece) for piece, number in vocab.items() if piece != END)
    return {bytes(map(BYTE_OF.__getitem__, piece)): rank for rank, (_, piece) in enumerate(pieces)}


def opened(data: bytes) -> Tokenizer:
    roles = find_roles(
        describe(data, TokenizerKind.HUGGING_FACE, name="ranks"), SpecialPieces(), name="ranks"
    )
    ids = {"pad": roles.ids["eos"], **roles.ids}
    return existing_tokenizer(data, TokenizerKind.HUGGING_FACE, ids, name="ranks").unguarded()


def made_of(ranks: Mapping[bytes, int], pattern: str = PATTERN) -> Tokenizer:
    special = {END: max(ranks.values()) + 5}
    return opened(byte_level_file(RankedPieces(ranks, pattern, special), name="ranks"))


def lines_of(ranks: Mapping[bytes, int]) -> bytes:
    lines = (base64.b64encode(piece) + b" %d\n" % rank for piece, rank in ranks.items())
    return b"".join(lines)


def test_ids_of_trained_ranks_are_those_of_the_rule_compiled_and_by_the_library() -> None:
    tokenizer = made_of(trained_ranks())
    assert tokenizer.compiled
    groups = stress_texts([END], strings=84)
    long_runs = [text[:300] for text in groups.pop("long runs")]
    every = [*texts()[:40], *long_runs, *(text for group in groups.values() for text in group)]
    assert len(every) > 300
    expected = [by_the_rule(text, trained_ranks()) for text in every]
    assert [row.tolist() for row in tokenizer.encode(every)] == expected
    assert [row.tolist() for row in tokenizer.encode_by_library(every)] == expected
    assert tokenizer.decode(tokenizer.encode(every)) == every


@pytest.mark.parametrize("seed", range(12))
def test_ids_are_those_of_the_rule_whatever_the_order_of_ranks(seed: int) -> None:
    """No training would give such ranks: parts of pieces may rank behind them or be no pieces."""
    drawn = random.Random(seed)  # noqa: S311  # no secret
    letters = "ab" if seed % 2 else "abc"
    words = {"".join(drawn.choices(letters, k=drawn.randint(2, 7))).encode() for _ in range(60)}
    order = sorted(words)
    drawn.shuffle(order)
    ranks = BYTES | {word: 300 + 2 * rank for rank, word in enumerate(order)}
    tokenizer = made_of(ranks)
    every = ["".join(drawn.choices(letters, k=drawn.randint(1, 30))) for _ in range(300)]
    every += ["a" * 40, "ab" * 20, "aab" * 12]
    expected = [by_the_rule(text, ranks) for text in every]
    assert [row.tolist() for row in tokenizer.encode(every)] == expected
    assert [row.tolist() for row in tokenizer.encode_by_library(every)] == expected


def test_a_piece_has_the_pair_that_its_bytes_alone_come_to() -> None:
    ranks = {b"a": 0, b"b": 1, b"c": 2, b"bc": 3, b"ab": 4, b"abc": 5, b"cab": 6, b"xyz": 7}
    assert merges_of_ranks(ranks) == [(b"b", b"c"), (b"a", b"b"), (b"a", b"bc"), (b"c", b"ab")]


@pytest.mark.parametrize("name", ENCODINGS)
def test_expressions_of_known_models_are_compiled_and_ids_are_their_own(name: str) -> None:
    known = ENCODINGS[name]  # type: ignore[index]
    data = byte_level_file(RankedPieces(BYTES, known.pattern, known.special_tokens), name=name)
    content = json.loads(data)
    assert byte_level_splits(content["pre_tokenizer"]) is not None
    whole = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    assert content["decoder"] == whole, "as transformers writes it; other bytes are another tokenizer"
    assert len(set(known.special_tokens.values())) == len(known.special_tokens)
    sizes = {"llama3": (256, 128_255), "llama4": (2048, 202_047), "o200k_harmony": (1090, 201_087)}
    if name in sizes:
        assert (len(known.special_tokens), max(known.special_tokens.values())) == sizes[name]


def test_white_space_at_the_end_is_one_word_of_cl100k_alone() -> None:
    ranks = BYTES | {b" \n ": 256, b"  ": 257}
    for name, expected in (("cl100k_base", [97, 256]), ("llama3", [97, 32, 10, 32])):
        tokenizer = made_of(ranks, ENCODINGS[name].pattern)  # type: ignore[index]
        assert tokenizer.encode(["a \n "])[0].tolist() == expected
        assert tokenizer.encode(["a \n b"])[0].tolist() == [97, 32, 10, 32, 98]


def test_what_a_file_leaves_out_is_said_by_the_run_file() -> None:
    data, name = lines_of(trained_ranks()), "x.tiktoken"
    with pytest.raises(ConfigError, match=r"x\.tiktoken: tiktoken's ranks of 1,499 pieces, of no model"):
        tokenizer_file(data, name=name)
    config = TiktokenConfig(pattern=PATTERN, special_tokens={END: 2000, "<pad>": 2001})
    file = tokenizer_file(data, name=name, tiktoken=config)
    described = describe(file.data, file.kind, name=name)
    assert (described.size, described.marks) == (2002, {END: 2000, "<pad>": 2001})
    assert find_roles(described, SpecialPieces(), name=name).ids == {"eos": 2000, "pad": 2001}
    text = f"a {END}<pad> b"
    assert opened(file.data).encode([text])[0].tolist() == by_the_rule(text, trained_ranks())
    shuffled = lines_of(dict(reversed(trained_ranks().items()))).replace(b"\n", b"\r\n\r\n")
    assert tokenizer_file(shuffled, name=name, tiktoken=config) == file
    llama = TiktokenConfig(encoding="llama3")
    assert describe(
        tokenizer_file(data, name=name, tiktoken=llama).data, file.kind, name="x"
    ).frame() == (FrameIds(128_000, None))
    with pytest.raises(ValueError, match="both given"):
        TiktokenConfig(encoding="llama3", pattern=PATTERN)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"YQ== 0\nYQ 1\n", r"line 2 is not a piece in base64 and its rank \(.*padding"),
        (b"YQ== 0\n\nYg== 1 2\n", "line 3 is not a piece"),
        (b"YQ== 0\nYQ== 1\n", r"line 2 ranks b'a' again"),
        (b"YQ== 0\n", "no rank for the byte 0x00"),
        (lines_of(BYTES | {b"ab": 7}), r"the id of b'ab' is 7 and is that of b'\\x07'"),
        (lines_of(BYTES | {b"ab": 1 << 24}), r"the id of b'ab' is 16,777,216; each piece needs"),
        (lines_of(BYTES | {END.encode(): 300}), r"special token '<\|endoftext\|>' is a piece of texts"),
    ],
)
def test_damaged_ranks_are_refused(data: bytes, said: str) -> None:
    config = TiktokenConfig(pattern=PATTERN, special_tokens={END: 2000})
    with pytest.raises(FormatError, match=f"x: .*{said}"):
        tokenizer_file(data, name="x", tiktoken=config)


@pytest.mark.parametrize(
    "pattern", [r"\s+$|\S+", r"^a|.", r"\p{N}{1,3}+|.", r"(?s:.)", r"(?si).", r"(?m)a"]
)
def test_expressions_that_mean_something_else_to_the_library_are_refused(pattern: str) -> None:
    with pytest.raises(FormatError, match=r"x: its expression .* has "):
        byte_level_file(RankedPieces(BYTES, pattern, {}), name="x")


def test_signs_in_sets_and_escaped_ones_are_not_taken_for_anchors() -> None:
    assert byte_level_file(RankedPieces(BYTES, r"[^\s$\]]++|\$|\^|(?i:'s)", {}), name="x")


def test_well_known_ranks_are_known_whatever_their_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    data = lines_of(trained_ranks())
    ours = {
        "llama3": ENCODINGS["llama3"].__class__(hashlib.sha256(data).hexdigest(), PATTERN, {END: 1501})
    }
    monkeypatch.setattr("stages.tokenizer.ranks.tiktoken.ENCODINGS", ours)
    turned = lines_of(dict(reversed(trained_ranks().items())))
    assert read_tiktoken(turned, TiktokenConfig(), name="x").special_tokens == {END: 1501}
    chosen = TiktokenConfig(special_tokens={"<eos>": 1600})
    assert read_tiktoken(data, chosen, name="x").special_tokens == {"<eos>": 1600}
