"""Extension of byte-level BPE: merges after all old ones, within words of the same pre-tokenizer.

    old merges   ...  "Ġ t"  "h e"                    text merges by these to the end, as ever
    new ones     "Ġt he"  ...                         and then on by the new ones, in their order

New ids follow the highest id of the file, which may be that of an added token. The library numbers added
tokens from the size of the model's vocabulary on, unless that has them. So the added tokens are put into
the vocabulary with the ids that they have. No merge gives them, so no text does.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import orjson
import tokenizers
from numpy.typing import NDArray

from stages.errors import FormatError
from stages.kernels import lean_kernel
from stages.tokenizer.bpe.byte_level import byte_tables_of
from stages.tokenizer.bpe.encoder import BpeEncoder
from stages.tokenizer.extension.extended import Extension, fit_pieces
from stages.tokenizer.extension.learning import (
    NewPiece,
    OldPieces,
    PieceLearner,
    PieceLimits,
    SymbolWords,
    own_words,
)
from stages.tokenizer.huggingface_content import (
    BYTE_OF,
    PieceWriting,
    ReadFile,
    read_content,
    spelled_by,
)
from stages.tokenizer.sampling import MAX_PART_BYTES
from stages.tokenizer.splitting.automaton import Splits, begin_text, next_pre_token
from stages.tokenizer.splitting.pre_tokenizer import byte_level_splits
from stages.tokenizer.texts import JoinedTexts, TextIds, batches_of, joined_texts

_INT32 = np.dtype(np.int32)
_SIGN_OF = {byte: character for character, byte in BYTE_OF.items()}
_UNCUT = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
"""A pre-tokenizer that takes a text for one word."""


class ByteLevelBpe:
    """A tokenizer.json of byte-level BPE that pieces are appended to.

    Args:
        data: the file.
        name: for messages.
    """

    def __init__(self, data: bytes, *, name: str) -> None:
        self._content = read_content(data, name=name)
        if self._content.writing is not PieceWriting.BYTE_LEVEL or not self._content.has_bytes:
            raise FormatError(f"{name}: is no byte-level BPE, and others are not extended")
        self._file: ReadFile = orjson.loads(data)
        self._library = tokenizers.Tokenizer.from_str(data.decode())
        self._splits = byte_level_splits(self._file["pre_tokenizer"])
        found = (p for p, n in self._content.added.items() if n not in self._content.special)
        added = sorted(filter(None, found), key=len, reverse=True)
        self._added = re.compile("|".join(map(re.escape, added)) if added else r"(?!)")
        self.size = self._content.size

    def count(self, texts: Iterable[str]) -> Counter[str]:
        """Return how often each word stands in texts, between the added pieces that texts give."""
        normaliser = self._library.normalizer
        words = Counter[str]()
        for whole in batches_of(texts):
            batch = [part for text in whole for part in self._added.split(text) if part]
            normalised = batch if normaliser is None else list(map(normaliser.normalize_str, batch))
            words.update(self._words(normalised))
        return words

    def extend(self, words: Sequence[Mapping[str, int]], wanted: int, *, max_drift: float) -> Extension:
        """Return the file with further pieces; see `SentencePieceBpe.extend`."""
        *new, old_words = words
        words = [*(own_words(one, old_words) for one in new), old_words]
        total = sum((Counter(own) for own in words[:-1]), Counter[str]())
        spelled = [b""] * self.size
        for piece, number in self._content.vocab.items():
            if number not in self._content.special:
                spelled[number] = spelled_by(piece, self._content)
        taken = {piece.encode() for piece in self._content.added}
        learner = PieceLearner(
            OldPieces(spelled, (), taken, joins=False),
            self._symbols(words),
            PieceLimits(max_drift=max_drift),
        )
        return fit_pieces(
            learner,
            wanted,
            made=lambda pieces: self._with(pieces, spelled),
            uses=lambda data, count: _uses(orjson.loads(data), total, self.size + count)[-count:],
        )

    def _words(self, texts: Sequence[str]) -> list[str]:
        if self._splits is None:
            cut = self._library.pre_tokenizer.pre_tokenize_str
            words = (word for text in texts for word, _ in cut(text))
            return [bytes(map(BYTE_OF.__getitem__, word)).decode(errors="ignore") for word in words]
        joined = joined_texts([text.encode() for text in texts])
        ends = np.empty(int(joined.offsets[-1]), np.int64)
        data = joined.data.tobytes()
        found = ends[: fill_ends(joined, self._splits, ends)].tolist()
        places = zip([0, *found[:-1]], found, strict=True) if found else ()
        return [data[begin:end].decode() for begin, end in places if end - begin <= MAX_PART_BYTES]

    def _symbols(self, words: Sequence[Mapping[str, int]]) -> SymbolWords:
        every = sorted(set().union(*words))
        encoded = _encoded(self._file, every)
        weights = np.array([[own.get(word, 0) for own in words] for word in every], np.int64)
        return SymbolWords(encoded.ids.astype(np.int32), encoded.counts, weights.reshape(-1, len(words)))

    def _with(self, pieces: Sequence[NewPiece], spelled: Sequence[bytes]) -> bytes:
        model = self._file["model"]
        contents = {piece.symbol: piece.content for piece in pieces}
        vocab_entries = [
            [
                _in_byte_alphabet(contents.get(side) or spelled[side])
                for side in (piece.left, piece.right)
            ]
            for piece in pieces
        ]
        as_text = bool(model["merges"]) and isinstance(model["merges"][0], str)
        merges = [" ".join(pair) if as_text else pair for pair in vocab_entries]
        new = {_in_byte_alphabet(piece.content): self.size + n for n, piece in enumerate(pieces)}
        vocab = model["vocab"] | self._content.added | new
        changed = model | {"vocab": vocab, "merges": [*model["merges"], *merges]}
        return orjson.dumps(self._file | {"model": changed}, option=orjson.OPT_INDENT_2)


def _in_byte_alphabet(content: bytes) -> str:
    """Return a piece as the file writes it."""
    return "".join(map(_SIGN_OF.__getitem__, content))


def _encoded(file: ReadFile, words: Sequence[str]) -> TextIds:
    """Return the ids of words, each of which is merged as a whole."""
    uncut: ReadFile = file | {"pre_tokenizer": _UNCUT, "normalizer": None}
    tables = byte_tables_of(uncut)
    assert tables is not None, "a byte-level model of other rules"
    texts = joined_texts([word.encode() for word in words])
    return BpeEncoder(tables, _refuse).encode(texts, dtype=_INT32)


def _refuse(word: str) -> NDArray[np.integer]:
    raise AssertionError(f"a word of {len(word):,} characters was counted")


def _uses(file: ReadFile, words: Mapping[str, int], size: int) -> NDArray[np.int64]:
    """Return how often words, each with its count, give each id: (size,)."""
    encoded = _encoded(file, list(words))
    weights = np.repeat(np.fromiter(words.values(), np.int64, len(words)), encoded.counts)
    found = np.zeros(size, np.int64)
    np.add.at(found, encoded.ids, weights)
    return found


@lean_kernel
def fill_ends(texts: JoinedTexts, splits: Splits, ends: NDArray[np.int64]) -> int:
    """Fill in where each word of texts ends; return how many there are."""
    count = 0
    for text in range(len(texts.offsets) - 1):
        place, end = texts.offsets[text], texts.offsets[text + 1]
        begin_text(place, end, splits)
        while place < end:
            place = next_pre_token(place, texts.data, splits)
            ends[count] = place
            count += 1
    return count
