r"""Folders that AutoTokenizer of transformers loads: the files, and whether they give a run's ids.

    tokenizer.json            the file itself, or what a SentencePiece model comes to
    tokenizer_config.json     which piece has which role
    special_tokens_map.json   the same, for older readers

The file's post-processor becomes the frame of the run's documents. transformers finds special tokens
wherever a text writes them out, unless it is told to split them. A run never does. So a folder is proved
in both ways; texts in which the library reads a special token are left out, and counted.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import orjson
import tokenizers
from numpy.typing import NDArray

from stages.errors import FormatError
from stages.tokenizer.codec import Tokenizer
from stages.tokenizer.existing import TokenizerKind, describe
from stages.tokenizer.framing import BEGIN, FrameIds
from stages.tokenizer.post_processor import frame_of
from stages.tokenizer.sentencepiece_conversion import converted, has_rules
from stages.tokenizer.sentencepiece_model import ModelKind, SentencePieceModel

FILE, CONFIG, ROLES = "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"
_NAMED = ("bos", "eos", "unk", "pad", "cls", "sep", "mask")
"""Roles that transformers has a name for."""
_SHOWN = 3
_SHOWN_CHARACTERS = 60
_FRAMED = 16
"""Texts, the first ones, of which what is put around them is compared."""
_HALF_STEP = 2.0**-24
"""Of a 32-bit float, relative: what each addition may be off by."""


def run_frame(ids: Mapping[str, int]) -> FrameIds:
    """Return what a run puts around a document, by its special ids."""
    return FrameIds(ids.get(BEGIN), ids["eos"])


@dataclass(frozen=True)
class HubTokenizer:
    """What a folder is made of.

    Args:
        kind: of the file.
        data: its bytes.
        ids: special ids by role.
        pieces: of all special ids.
        spaces: whether the run writes a U+2581 of a text in bytes.
    """

    kind: TokenizerKind
    data: bytes
    ids: Mapping[str, int]
    pieces: Mapping[int, str]
    spaces: bool
    name: str


def hub_tokenizer(
    kind: TokenizerKind, data: bytes, ids: Mapping[str, int], *, spaces: bool, name: str
) -> HubTokenizer:
    """Return what a folder is made of; see `HubTokenizer`.

    Raises:
        FormatError: the file is not of its kind.
    """
    special = set(ids.values())
    known = describe(data, kind, name=name).pieces
    pieces = {number: piece for piece, number in known.items() if number in special}
    return HubTokenizer(kind, data, ids, pieces, spaces, name)


def folder_files(
    tokenizer: HubTokenizer, frame: FrameIds | None, *, split_special: bool = False
) -> dict[str, bytes]:
    """Return the files of a folder by name.

    Args:
        tokenizer: what they say.
        frame: put around texts; None leaves what the file says, which is nothing for SentencePiece.
        split_special: whether special tokens that a text writes out are taken for text.

    Raises:
        FormatError: a SentencePiece model that tokenizer.json cannot say.
    """
    roles = roles_of(tokenizer)
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": split_special,
        **roles,
    }
    return {FILE: _tokenizer_json(tokenizer, frame), CONFIG: _lines(config), ROLES: _lines(roles)}


def roles_of(tokenizer: HubTokenizer) -> dict[str, str | list[str]]:
    """Return the pieces of special ids as transformers names them; a role of its own has none."""
    ids, pieces = tokenizer.ids, tokenizer.pieces
    named: dict[str, str | list[str]] = {
        f"{role}_token": pieces[ids[role]] for role in _NAMED if role in ids
    }
    taken = {ids[role] for role in _NAMED if role in ids}
    further = dict.fromkeys(n for n in ids.values() if n not in taken)
    return {**named, "additional_special_tokens": [pieces[n] for n in further]}


def _lines(content: Mapping[str, object]) -> bytes:
    return orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n"


def _tokenizer_json(tokenizer: HubTokenizer, frame: FrameIds | None) -> bytes:
    """Return the file: byte for byte that of the run, where nothing in it stands against that."""
    special = set(tokenizer.ids.values())
    if tokenizer.kind is TokenizerKind.SENTENCEPIECE:
        file = converted(tokenizer.data, special, spaces=tokenizer.spaces, name=tokenizer.name)
        changed = True
    else:
        file = orjson.loads(tokenizer.data)
        changed = any(file.get(part) for part in ("truncation", "padding")) or bool(
            file["model"].get("dropout")
        )
        file |= {"truncation": None, "padding": None}
        if "dropout" in file["model"]:
            file["model"]["dropout"] = None
        frame = None if frame is None or _says(tokenizer, frame) else frame
    if frame is not None:
        before = file["post_processor"]
        own = _template(frame, tokenizer.pieces)
        kept = isinstance(before, dict) and before.get("type") == "ByteLevel"  # offsets of pieces
        file["post_processor"] = {"type": "Sequence", "processors": [before, own]} if kept else own
        changed = True
    return orjson.dumps(file) if changed else tokenizer.data


def _says(tokenizer: HubTokenizer, frame: FrameIds) -> bool:
    """Say whether a tokenizer.json puts a frame around texts by itself."""
    try:
        said = frame_of(tokenizer.data, name=tokenizer.name)
    except FormatError:  # several ids on a side, which no run has
        return False
    return (FrameIds(None, None) if said is None else said) == frame


def _template(frame: FrameIds, pieces: Mapping[int, str]) -> dict[str, object]:
    """Return a post-processor: <s> $A </s>, and <s> $A </s> $B </s> of two texts."""
    begin, end = ([] if number is None else [number] for number in frame)

    def put(numbers: Sequence[int], kind: int) -> list[dict[str, object]]:
        return [{"SpecialToken": {"id": pieces[number], "type_id": kind}} for number in numbers]

    def text(name: str, kind: int) -> dict[str, object]:
        return {"Sequence": {"id": name, "type_id": kind}}

    first = [*put(begin, 0), text("A", 0), *put(end, 0)]
    return {
        "type": "TemplateProcessing",
        "single": first,
        "pair": [*first, text("B", 1), *put(end, 1)],
        "special_tokens": {
            pieces[number]: {"id": pieces[number], "ids": [number], "tokens": [pieces[number]]}
            for number in {*begin, *end}
        },
    }


@dataclass
class FolderProof:
    """How the ids of a written file compare with those of a run."""

    texts: int = 0
    """In both ways of reading special tokens together."""
    special: int = 0
    """Of them left out, because the library reads a special token in them."""
    split_special: int = 0
    """Of those, the ones in which it does so even where it is told to split special tokens."""
    ties: int = 0
    """Of unigram: texts cut in another way of the same score, as far as 32-bit floats can tell."""
    differ: int = 0
    first: tuple[str, ...] = ()
    """Texts that differ."""


def prove_folder(
    written: bytes,
    tokenizer: Tokenizer,
    frame: FrameIds | None,
    texts: Iterable[str],
    *,
    scores: NDArray[np.float32] | None = None,
) -> FolderProof:
    """Compare the ids of a written tokenizer.json with those of a run, text by text.

    Args:
        written: the file, as it was read back.
        tokenizer: of the run, which says of ids whether they are special.
        frame: that the file is to put around texts; None if what it puts is left as it was.
        texts: to be encoded.
        scores: of the pieces of a unigram model, (V,).

    Raises:
        FormatError: the library does not read the file.
    """
    try:
        library = tokenizers.Tokenizer.from_str(written.decode())
    except Exception as error:
        raise FormatError(f"the written {FILE} is not read by its library: {error}") from error
    given = list(texts)
    special = set(tokenizer.special_ids.values()) - {tokenizer.unk}
    wanted = [ids.tolist() for ids in tokenizer.encode(given)]
    found = FolderProof(texts=2 * len(given))
    differing: list[str] = []
    for split in (False, True):
        library.encode_special_tokens = split
        encoded = library.encode_batch(given, add_special_tokens=False)
        for text, ids, own in zip(given, wanted, (each.ids for each in encoded), strict=True):
            if not special.isdisjoint(own):
                found.special += 1
                found.split_special += split
            elif own != ids and scores is not None and _are_tied(own, ids, scores):
                found.ties += 1
            elif own != ids:
                differing.append(text)
    if frame is not None:  # with special tokens still split
        differing += [
            text
            for text, ids in zip(given[:_FRAMED], wanted, strict=False)
            if library.encode(text).ids != _framed(ids, frame)
        ]
    found.differ, found.first = len(differing), tuple(dict.fromkeys(differing))[:_SHOWN]
    return found


def difference(proof: FolderProof, tokenizer: HubTokenizer) -> str:
    """Say how the ids of a folder differ, why if that is known, and the way out."""
    found = (
        f"{proof.differ:,} of {proof.texts:,} comparisons find other ids in the written {FILE}, the"
        f" first of {proof.first[0][:_SHOWN_CHARACTERS]!r}"
    )
    if tokenizer.kind is TokenizerKind.SENTENCEPIECE and has_rules(tokenizer.data):
        return (
            f"{found}: the model normalises texts by rules, as nmt_nfkc does, and the library of {FILE}"
            " applies such rules to groups of characters; encode texts with the package sentencepiece"
            f' and {tokenizer.kind}, or train with tokenizer.train.normalization = "identity"'
        )
    return f"{found}: use the file itself with its own library"


def _framed(ids: list[int], frame: FrameIds) -> list[int]:
    begin, end = ([] if number is None else [number] for number in frame)
    return [*begin, *ids, *end]


def _are_tied(one: list[int], other: list[int], scores: NDArray[np.float32]) -> bool:
    """Say whether two ways to cut a text have one score, as far as a sum of 32-bit floats can tell."""
    sums = [float(scores[ids].sum(dtype=np.float64)) for ids in (one, other)]
    return abs(sums[0] - sums[1]) <= _HALF_STEP * max(len(one), len(other)) * max(map(abs, sums))


def unigram_scores(tokenizer: HubTokenizer) -> NDArray[np.float32] | None:
    """Return the score of each piece of a unigram model of SentencePiece: (V,); of others None."""
    if tokenizer.kind is not TokenizerKind.SENTENCEPIECE:
        return None
    model = SentencePieceModel(tokenizer.data)
    return model.scores if model.kind is ModelKind.UNIGRAM else None
