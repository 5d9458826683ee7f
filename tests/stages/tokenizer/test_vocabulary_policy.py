"""What digits, indentation, user and control symbols promise of a tokenizer that a run trains."""

import json
import re
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
import tokenizers
from pydantic import ValidationError

from stages.tokenizer.codec import Tokenizer
from stages.tokenizer.encode import trained_tokenizer
from stages.tokenizer.existing import open_tokenizer
from stages.tokenizer.framing import Framing, are_own, trained_ids
from stages.tokenizer.sampling import SPACE_SYMBOL
from stages.tokenizer.sentencepiece_conversion import converted
from stages.tokenizer.sentencepiece_file import describe_sentencepiece
from stages.tokenizer.special import num_reserved, special_pieces
from stages.tokenizer.train import TrainConfig, train_model
from stages.tokenizer.vocabulary_policy import UNITS, spelled_spaces, with_units
from tests.stages.tokenizer.existing_files import texts

CODE = """\
def f(x):
    if x:
        return [12, 345]

    for y in x:
                print(y, 1999)
"""
USERS = ("<br>", "a,b", 'say "no"', "  two", "\n\n\n", "\u00e9t\u00e9", "<br>s", "\u4e2d", "2024!")
CONTROLS = ("<|im_start|>", "<|im_end|>", "[INST]")
STRESS = (
    "",
    "a",
    " ",
    SPACE_SYMBOL,
    f"<{SPACE_SYMBOL}br>",
    "<br><br>s <b r>",
    "x\r\ny",
    "\u0663\u0664\u0665\u0666 \u096b\u096c\u096d",
    "e\u0301t\u00e9\u00e9t\u00e9",
    f"1234567.8{UNITS}  9",
    "<|im_start|>user\n[INST]</s><unk><0x0A><sentinel_3>",
    "7" * 5_000,
    " " * 5_001 + "x",
    "\n" + " " * 37 + "\t  }" + "\U0001f44d\u0301",
    "  two   two    two",
    "2024!12024!1",
    'say "no"say "no"\n\n\n\n',
)


@cache
def trained(*names: str) -> bytes:
    """Return a model with some of the settings."""
    chosen: dict[str, dict[str, object]] = {
        "bytes": {"model": "byte_bpe"},
        "single": {"digits": "single"},
        "threes": {"digits": "threes"},
        "whole": {"digits": "whole"},
        "indentation": {"indentation": True},
        "users": {"user_symbols": USERS},
        "controls": {"control_symbols": CONTROLS},
    }
    settings = {key: value for name in names for key, value in chosen[name].items()}
    config = TrainConfig.model_validate({"vocab_size": 2_600, **settings})
    sample = [*((text[:2_000], 1) for text in texts()[:40]), *((f"{CODE}{n}", 3) for n in range(100))]
    return train_model(sample, config, characters="\u00e9")


def opened(*names: str) -> Tokenizer:
    """Return such a model, opened."""
    return trained_tokenizer(sentencepiece.SentencePieceProcessor(model_proto=trained(*names)))


EVERY = ("threes", "indentation", "users", "controls")


@pytest.mark.parametrize("names", [EVERY, ("whole",), ("users",), ("indentation", "controls")])
def test_texts_come_back_and_ids_are_the_librarys(names: tuple[str, ...]) -> None:
    tokenizer = opened(*names)
    many = [*STRESS, *USERS, *CONTROLS, CODE, *(text[:500] for text in texts()[:30])]
    ids = tokenizer.encode(many)
    assert tokenizer.compiled
    assert tokenizer.vocab_size == 2_600
    assert tokenizer.decode(ids) == many
    for text, ours, theirs in zip(many, ids, tokenizer.encode_by_library(many), strict=True):
        assert np.array_equal(ours, theirs), text
    special = num_reserved() + len(CONTROLS) * ("controls" in names)
    assert all((own >= special).all() for own in ids)


def test_ids_of_the_model_as_a_tokenizer_json_are_the_same() -> None:
    tokenizer = opened(*EVERY)
    content = converted(trained(*EVERY), range(1, 272), spaces=True, name="model")
    library = tokenizers.Tokenizer.from_str(json.dumps(content))
    plain = [text for text in (*STRESS, *USERS, CODE, *texts()[:20]) if "<unk>" not in text]
    theirs = library.encode_batch(plain, add_special_tokens=False)
    for text, ours, other in zip(plain, tokenizer.encode(plain), theirs, strict=True):
        assert ours.tolist() == other.ids, text


def test_digits_are_taken_in_threes_from_the_left() -> None:
    tokenizer = opened(*EVERY)
    around = list(product(("", "a", " ", "$", "1.", "\u0663"), ("", "x", ".", " ", "\n")))
    numbers = ["".join(str(7 * n * n)[: 1 + n % 9]) + "08" * (n % 4) for n in range(1, 400)]
    for place, number in enumerate(numbers):
        before, after = around[place % len(around)]
        (ids,) = tokenizer.encode([f"{before}{number}{after}"])
        groups = [piece for piece in tokenizer.codec.pieces(ids.tolist()) if piece[0] in "0123456789"]
        assert groups == re.findall("[0-9]{1,3}", before) + re.findall("[0-9]{1,3}", number)


def test_numbers_may_be_whole_and_are_single_digits_otherwise() -> None:
    whole, single = opened("whole"), opened("users")
    lengths = [
        max(len(piece) for piece in one.codec.pieces(range(one.vocab_size)) if piece.isdigit())
        for one in (whole, single)
    ]
    assert lengths[0] > 1 == lengths[1]


def test_a_run_of_spaces_is_one_piece_and_a_longer_one_begins_with_those_of_sixteen() -> None:
    tokenizer = opened("indentation")
    for size in range(2, 60):
        (ids,) = tokenizer.encode([f"x{' ' * size}x"])
        whole, rest = divmod(size, 16)
        spaces = "".join(tokenizer.codec.pieces(ids.tolist())).strip("x")
        assert spaces == SPACE_SYMBOL * size
        learned = len(ids) - 2  # those of 16 may be one piece together, and one space begins a word
        assert learned <= whole + bool(rest)
    assert len(tokenizer.encode(["x:\n        y"])[0]) == 3, "the line feed and its indentation are one"


def test_pieces_are_those_of_a_model_in_which_runs_are_characters() -> None:
    config = TrainConfig(vocab_size=700, indentation=True)
    parts = list(product((":\n", "\n", ");\n", "x"), range(1, 40), ("x", "}", " if", "1", "\n")))
    lines = [f"{before}{' ' * size}{after}" for before, size, after in parts]
    sample = [("".join(lines[n : n + 9]), 2) for n in range(0, len(lines), 9)]
    plain = config.model_copy(update={"indentation": False})
    units = train_model([(with_units(text), n) for text, n in sample], plain, characters=UNITS)
    oracle = sentencepiece.SentencePieceProcessor(model_proto=units)
    final = sentencepiece.SentencePieceProcessor(model_proto=train_model(sample, config))
    rng = np.random.default_rng(7)
    seen = 0
    for _ in range(300):
        text = "".join(rng.choice([*lines, *"\n:)]1 "], 9))
        pieces = oracle.encode(with_units(text), out_type=str)
        assert final.encode(text, out_type=str) == [spelled_spaces(piece) for piece in pieces]
        seen += any(len(piece) > 1 and set(piece) & set(UNITS) for piece in pieces)
    assert seen > 100, "pieces were learned over runs"


def test_runs_become_characters_and_spaces_again() -> None:
    sixteen, five = UNITS[14], UNITS[3]
    assert with_units(f"a {five}b" + " " * 21 + "c" + " " * 17) == f"a b{sixteen}{five}c{sixteen} "
    assert spelled_spaces(f"\n{sixteen}{five}x") == "\n" + SPACE_SYMBOL * 21 + "x"


def test_symbols_of_the_user_are_one_token_wherever_they_are_written() -> None:
    tokenizer = opened(*EVERY)
    numbers = range(num_reserved() + len(CONTROLS), num_reserved() + len(CONTROLS) + len(USERS))
    assert [tokenizer.codec.piece_bytes()[number].decode() for number in numbers] == list(USERS)
    for number, symbol in zip(numbers, USERS, strict=True):
        for text in (symbol, f"x{symbol}x", f"{symbol}{symbol}"):
            (ids,) = tokenizer.encode([text])
            assert ids.tolist().count(number) == text.count(symbol), text


def test_symbols_of_one_character_may_be_among_the_characters_that_get_pieces() -> None:
    config = TrainConfig(vocab_size=580, user_symbols=("=", "\n"), control_symbols=("\u00a7",))
    model = train_model([(CODE, 1)], config, characters="=\n\u00a7x")
    tokenizer = trained_tokenizer(sentencepiece.SentencePieceProcessor(model_proto=model))
    (ids,) = tokenizer.encode(["a == \u00a7\n"])
    assert ids.tolist().count(num_reserved() + 1) == 2
    assert num_reserved() not in ids
    assert tokenizer.decode([ids]) == ["a == \u00a7\n"]


def test_control_symbols_follow_the_other_special_ids_and_no_text_gives_them() -> None:
    ids = trained_ids(Framing(), len(CONTROLS))
    assert [ids[f"reserved_{number}"] for number in (269, 270, 271)] == [269, 270, 271]
    assert are_own(ids)
    assert not are_own({**ids, "reserved_300": 300})
    described = describe_sentencepiece(trained("controls"), name="model")
    assert [described.pieces[symbol] for symbol in CONTROLS] == [269, 270, 271]
    assert {269, 270, 271} <= described.controls
    assert special_pieces(CONTROLS)[270] == CONTROLS[1]


def test_a_model_is_a_trained_one_if_its_file_keeps_the_control_symbols(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.model"
    path.write_bytes(trained("controls"))
    assert open_tokenizer(path, trained_ids(Framing(), len(CONTROLS))).exact
    path.write_bytes(trained("users"))
    taken = open_tokenizer(path, trained_ids(Framing(), 1))
    assert not taken.exact
    assert num_reserved() not in taken.encode([USERS[0]])[0].tolist()


def opened_bytes(*names: str, tmp_path: Path) -> Tokenizer:
    """Return a byte-level model with some of the settings, opened."""
    path = tmp_path / "tokenizer.json"
    path.write_bytes(trained("bytes", *names))
    found = open_tokenizer(path, trained_ids(Framing(), len(CONTROLS) * ("controls" in names)))
    assert not found.exact
    return found


def test_byte_level_models_keep_the_same_promises(tmp_path: Path) -> None:
    tokenizer = opened_bytes("users", "controls", tmp_path=tmp_path)
    many = [*STRESS, *USERS, *CONTROLS, *(f"x{symbol}x" for symbol in USERS), CODE]
    ids = tokenizer.encode(many)
    assert tokenizer.compiled
    assert tokenizer.vocab_size == 2_600
    assert tokenizer.decode(ids) == many
    for text, ours, theirs in zip(many, ids, tokenizer.encode_by_library(many), strict=True):
        assert np.array_equal(ours, theirs), text
        assert (ours >= num_reserved() + len(CONTROLS)).all()
    first = num_reserved() + len(CONTROLS)
    for number, symbol in enumerate(USERS, first):
        for text in (symbol, f"x{symbol}x", f"{symbol}{symbol}"):
            assert tokenizer.encode([text])[0].tolist().count(number) == text.count(symbol)
    assert tokenizer.codec.pieces(range(num_reserved(), first)) == list(CONTROLS)


@pytest.mark.parametrize(
    ("names", "longest"), [((), 3), (("whole",), 4), (("threes", "users"), 3), (("single",), 1)]
)
def test_byte_level_models_cut_digits_as_asked(
    names: tuple[str, ...], longest: int, tmp_path: Path
) -> None:
    tokenizer = opened_bytes(*names, tmp_path=tmp_path)
    spelled = [piece.decode() for piece in tokenizer.codec.piece_bytes() if piece.isdigit()]
    assert max(map(len, spelled)) == longest
    (ids,) = tokenizer.encode(["x1999345a"])
    pieces = tokenizer.codec.pieces(ids.tolist())
    if "whole" not in names:
        cut = re.findall(f"[0-9]{{1,{longest}}}", "1999345")
        assert "".join(pieces[1:-1]) == "".join(cut)
        ends = {sum(map(len, cut[:n])) for n in range(len(cut) + 1)}
        assert ends <= {sum(map(len, pieces[1:n])) for n in range(1, len(pieces) + 1)}


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"user_symbols": [""]}, "is empty"),
        ({"user_symbols": ["a", "a"]}, "stands twice"),
        ({"user_symbols": ["a"], "control_symbols": ["a"]}, "stands twice"),
        ({"user_symbols": ["</s>"]}, "is a piece of every model already"),
        ({"control_symbols": ["<sentinel_7>"]}, "is a piece of every model already"),
        ({"user_symbols": ["<0x0A>"]}, "is a piece of every model already"),
        ({"user_symbols": [f"a{SPACE_SYMBOL}"]}, "write a space"),
        ({"user_symbols": ["a\0"]}, "no text has"),
        ({"user_symbols": ["\ud800"]}, "surrogate"),
        ({"user_symbols": ["x" * 257]}, "at most 256"),
        ({"user_symbols": [" "]}, "would cut all words"),
        ({"user_symbols": ["\ufb01"], "normalization": "nmt_nfkc"}, "'fi' after normalization"),
        ({"user_symbols": ["a" * n for n in range(1, 66)]}, "room for so many"),
        ({"user_symbols": ["ab"], "model": "unigram"}, "can reach over them"),
        ({"indentation": True, "model": "unigram"}, "no order of merges"),
        ({"digits": "threes", "model": "unigram"}, "unigram model adds up scores"),
        ({"indentation": True, "normalization": "nmt_nfkc"}, "loses line feeds"),
        ({"indentation": True, "user_symbols": ["   "]}, "has a piece already"),
        ({"digits": "threes", "user_symbols": ["404"]}, "has a piece already"),
        ({"digits": "threes", "user_symbols": ["4"]}, "has a piece already"),
        ({"user_symbols": ["="], "model": "byte_bpe"}, "the piece of a single byte"),
        ({"control_symbols": ["\u0120"], "model": "byte_bpe"}, "the piece of a single byte"),
        ({"indentation": True, "model": "byte_bpe"}, "pre-tokenizer"),
        ({"digits": "threes", "vocab_size": 1_500}, "alone are 1,625"),
        ({"control_symbols": [f"<{n}>" for n in range(9)], "vocab_size": 530}, "alone are 534"),
    ],
)
def test_what_cannot_be_a_piece_is_refused(settings: dict[str, object], reason: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(reason)):
        TrainConfig.model_validate(settings)
