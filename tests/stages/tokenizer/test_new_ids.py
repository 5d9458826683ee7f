"""What new ids promise: old ids keep their pieces, and each new piece is written in old ones."""

import json

import pytest

from stages.errors import ConfigError
from stages.tokenizer.existing import TokenizerKind
from stages.tokenizer.new_ids import ModelFile, NewIds, OldWriter, find_new_ids, open_model
from tests.stages.tokenizer.existing_files import FILES, data_of, kind_of_file
from tests.stages.tokenizer.extended_files import extended_gpt2, extended_model


def model_file(data: bytes, name: str) -> ModelFile:
    of_json = data.startswith(b"{")
    return ModelFile(data, TokenizerKind.HUGGING_FACE if of_json else TokenizerKind.SENTENCEPIECE, name)


def found(old: bytes, new: bytes) -> NewIds:
    return find_new_ids(model_file(old, "--old"), model_file(new, "--new"))


def spelled(old: bytes, ids: NewIds) -> list[bytes]:
    pieces = open_model(model_file(old, "old")).piece_bytes()
    return [b"".join(pieces[number] for number in written) for written in ids.old_ids]


def test_new_pieces_of_a_sentencepiece_model_are_written_in_old_ids() -> None:
    old = data_of("llama-model")
    texts = ["\u2581\u732b\u304c", "\u732b\u732b", "zqzq", "\u2581\u2581zqx", "<0x>", "e\u0301"]
    ids = found(old, extended_model(*texts))
    assert (ids.old_size, ids.size) == (1500, 1506)
    assert ids.new.tolist() == list(range(1500, 1506))
    assert ids.old.tolist() == list(range(1500))
    assert spelled(old, ids) == [text.replace("\u2581", " ").encode() for text in texts]


def test_control_symbols_are_in_no_text_so_they_are_not_written() -> None:
    ids = found(data_of("llama-model"), extended_model("<turn>", kind=3))
    assert [len(written) for written in ids.old_ids] == [0]


def test_new_pieces_of_a_byte_level_file_are_written_even_if_they_cut_characters() -> None:
    old = data_of("gpt2")
    a, b, c = "\u00e7", "\u012e", "\u00ab"  # how bytes e7 8c ab are written
    ids = found(old, extended_gpt2(("z", "q"), (a, b), (a + b, c)))
    assert spelled(old, ids) == [b"zq", b"\xe7\x8c", "\u732b".encode(), b""]
    assert [len(written) for written in ids.old_ids] == [2, 2, 3, 0]


@pytest.mark.parametrize("name", FILES)
def test_every_old_piece_is_written_by_texts_of_its_own_kind(name: str) -> None:
    """A space that a file puts before texts is not written, and no id is unknown or special."""
    file = model_file(data_of(name), name)
    assert file.kind is kind_of_file(name)
    tokenizer = open_model(file)
    pieces = tokenizer.piece_bytes()
    texts = [b" the", b"the", b" a", b"", b"\xe2\x96"]
    written = OldWriter(tokenizer).write(texts)
    assert len(written[3]) == 0
    for text, ids in zip(texts[:3], written, strict=False):
        assert tokenizer.unk is None or tokenizer.unk not in ids.tolist()
        assert b"".join(pieces[number] for number in ids).strip() == text.strip()
    if tokenizer.writes_all:
        assert b"".join(pieces[number] for number in written[1]) == b"the"


def test_ids_that_the_old_file_lacks_are_new_wherever_they_are() -> None:
    old = json.loads(data_of("gpt2"))
    (piece,) = (p for p, number in old["model"]["vocab"].items() if number == 1400)
    del old["model"]["vocab"][piece]
    old["model"]["merges"] = [m for m in old["model"]["merges"] if piece not in ("".join(m), *m)]
    ids = found(json.dumps(old).encode(), data_of("gpt2"))
    assert (ids.new.tolist(), ids.old_size, ids.size) == ([1400], 1500, 1500)


def test_the_first_old_id_that_is_not_the_same_is_named() -> None:
    with pytest.raises(ConfigError, match=r"--new: id 1,500 is gone, and 'zq' in --old: every old id"):
        found(extended_model("zq"), data_of("llama-model"))
    swapped = json.loads(data_of("gpt2"))
    vocab = swapped["model"]["vocab"]
    by_id = {number: piece for piece, number in vocab.items()}
    vocab[by_id[300]], vocab[by_id[301]] = 301, 300
    with pytest.raises(ConfigError, match=r"--new: id 300 is .*, and .* in --old"):
        found(data_of("gpt2"), json.dumps(swapped).encode())


def test_an_old_id_that_is_kept_from_text_stays_so() -> None:
    file = json.loads(extended_gpt2())
    file["added_tokens"][0]["special"] = False
    with pytest.raises(
        ConfigError, match=r"--old: keeps id 0 \('<\|endoftext\|>'\) from text, and --new"
    ):
        found(data_of("gpt2"), json.dumps(file).encode())


def test_a_model_and_a_json_file_of_the_same_pieces_are_compared_by_pieces() -> None:
    old = data_of("llama-json")
    with pytest.raises(ConfigError, match="every old id must keep its piece"):
        found(old, data_of("llama-model"))
