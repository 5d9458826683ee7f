"""A SentencePiece BPE model as a tokenizer.json, for programs that read no other.

Every normal piece of two characters or more is made of two others. Each such pair is a merge, the best
score first. Texts are split before each run of spaces if no piece reaches across such a place; this lets
`tokenizers` keep the words that it has seen. `differing` counts the texts whose ids are not those of
SentencePiece.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from sentencepiece import SentencePieceProcessor
from tokenizers import Regex, normalizers, pre_tokenizers
from tokenizers import Tokenizer as HuggingFaceTokenizer
from tokenizers.models import BPE

from stages.tokenizer.sampling import SPACE_SYMBOL
from stages.tokenizer.sentencepiece_model import ModelKind, PieceType, SentencePieceModel

_WORDS = f"{SPACE_SYMBOL}+[^{SPACE_SYMBOL}]*|[^{SPACE_SYMBOL}]+"
"""A run of spaces and what follows up to the next space."""


def convert_model(model: Path, to: Path) -> None:
    """Write a SentencePiece BPE model as a tokenizer.json.

    Raises:
        ValueError: it is no BPE model.
    """
    source = SentencePieceModel(model.read_bytes())
    if source.kind != ModelKind.BPE:
        raise ValueError(f"{model}: a {source.kind.name} model; only BPE is converted")
    pieces = [text.decode() for text in source.texts]
    merges = find_merges(pieces, source.scores.tolist(), source.types.tolist())
    unknown = pieces[int(np.flatnonzero(source.types == PieceType.UNKNOWN)[0])]
    tokenizer = HuggingFaceTokenizer(
        BPE(
            {piece: number for number, piece in enumerate(pieces)},
            merges,
            unk_token=unknown,
            byte_fallback=bool((source.types == PieceType.BYTE).any()),
            fuse_unk=True,
        )
    )
    begins = SentencePieceProcessor(model_file=str(model)).encode("a", out_type=str)[0]
    steps: list[normalizers.Normalizer] = [normalizers.Replace(" ", SPACE_SYMBOL)]
    if begins.startswith(SPACE_SYMBOL):
        steps.insert(0, normalizers.Prepend(SPACE_SYMBOL))
    tokenizer.normalizer = normalizers.Sequence(steps)
    if not any(SPACE_SYMBOL in piece.lstrip(SPACE_SYMBOL) for piece in pieces):
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(_WORDS), "isolated")
    tokenizer.save(str(to))


def find_merges(pieces: list[str], scores: list[float], types: list[int]) -> list[tuple[str, str]]:
    """Return the pairs of pieces that make a piece, the best score first.

    pieces   a  b  c  ab  abc      scores of ab and abc  -1  -0
    merges   (ab, c)  (a, b)
    """
    numbers = {piece: number for number, piece in enumerate(pieces)}
    normal = [number for number, kind in enumerate(types) if kind == PieceType.NORMAL]
    found = []
    for number in normal:
        piece = pieces[number]
        for cut in range(1, len(piece)):
            left, right = piece[:cut], piece[cut:]
            if left in numbers and right in numbers:
                found.append((-scores[number], numbers[left], numbers[right], (left, right)))
    return [pair for *_, pair in sorted(found)]


def differing(texts: Iterable[str], model: Path, converted: Path) -> tuple[int, int]:
    """Return how many texts were encoded by both, and how many of them have other ids."""
    ours, theirs = (
        SentencePieceProcessor(model_file=str(model)),
        HuggingFaceTokenizer.from_file(str(converted)),
    )
    unequal = [ours.encode(text) != theirs.encode(text, add_special_tokens=False).ids for text in texts]
    return len(unequal), sum(unequal)
