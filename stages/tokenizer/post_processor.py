"""Post-processors: what a tokenizer.json puts around a text.

TemplateProcessing   [CLS] $A [SEP]        its template of one text
BertProcessing       [CLS] $A [SEP]        cls and sep
RobertaProcessing    <s> $A </s>           cls and sep
Sequence             of any of these
ByteLevel            nothing

The framing of a file's own model family: what its models expect around each text.

    the post-processor of a tokenizer.json, and of what was made from ranks or tekken.json
    [CLS] and [SEP] set apart: BERT, ELECTRA, ALBERT
    a piece that begins texts: Llama, Mistral, Gemma, DeepSeek

It is offered where the run file says nothing of framing, and never taken unasked.
"""

from collections.abc import Iterator, Mapping, Sequence

import orjson

from stages.errors import FormatError
from stages.tokenizer.framing import FrameIds
from stages.tokenizer.roles import Roles, TokenizerDescription

_NOTHING = ("ByteLevel",)


def frame_of(data: bytes, *, name: str) -> FrameIds | None:
    """Return the ids that a file puts before and behind a text; None if it says nothing of that.

    Args:
        data: a tokenizer.json that was read once.
        name: for messages.

    Raises:
        FormatError: its post-processor is damaged, or puts several ids on a side.
    """
    part = orjson.loads(data).get("post_processor")
    try:
        sides = list(_sides(part))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        message = f"{name}: post_processor cannot be read ({type(error).__name__}: {error})"
        raise FormatError(f"{message}; save the tokenizer again with its library") from error
    if not sides:
        return None
    before = [number for side, _ in reversed(sides) for number in side]
    behind = [number for _, side in sides for number in side]
    if max(len(before), len(behind)) > 1:
        raise FormatError(
            f"{name}: its post_processor puts the ids {before} before a text and {behind} behind it; at"
            " most one on a side is read: set framing.begin and framing.end instead"
        )
    return FrameIds(*(side[0] if side else None for side in (before, behind)))


def _sides(part: object) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
    """Yield the ids that each processor puts before and behind a text."""
    match part:
        case None:
            return
        case {"type": "Sequence", "processors": list(parts)}:
            for inner in parts:
                yield from _sides(inner)
        case {
            "type": "BertProcessing" | "RobertaProcessing",
            "cls": [_, int(cls)],
            "sep": [_, int(sep)],
        }:
            yield (cls,), (sep,)
        case {"type": "TemplateProcessing", "single": list(template), "special_tokens": dict(tokens)}:
            yield _template(template, tokens)
        case {"type": kind} if kind in _NOTHING:
            return
        case _:
            raise ValueError("of a type that is not read")


def _template(
    template: Sequence[Mapping[str, Mapping[str, str]]],
    tokens: Mapping[str, Mapping[str, Sequence[int]]],
) -> tuple[Sequence[int], Sequence[int]]:
    """Return the ids before and behind the text: [CLS] $A [SEP] -> [101], [102]."""
    texts = [place for place, item in enumerate(template) if "Sequence" in item]
    if len(texts) != 1:
        raise ValueError(f"a template with {len(texts)} texts")
    ids = [
        [int(number) for number in tokens[item["SpecialToken"]["id"]]["ids"]]
        if "SpecialToken" in item
        else []
        for item in template
    ]
    before, behind = ids[: texts[0]], ids[texts[0] + 1 :]
    return [n for part in before for n in part], [n for part in behind for n in part]


_BERT = ("[CLS]", "[SEP]")


def family_frame(found: TokenizerDescription, roles: Roles) -> FrameIds | None:
    """Return the ids that a file's models expect around a text; None if the file does not tell.

    Args:
        found: what the file says of its ids.
        roles: as `find_roles` gives them.
    """
    try:
        frame = found.frame()
    except FormatError:  # several ids on a side, which no framing can be
        frame = None
    if frame is not None:
        return frame
    if found.marks.keys() >= set(_BERT):
        begin, end = (found.marks[piece] for piece in _BERT)
        return FrameIds(begin, end)
    begins = roles.ids.get("bos")
    return None if begins is None or begins == roles.ids.get("eos") else FrameIds(begins, None)


def framing_offer(found: TokenizerDescription, roles: Roles) -> str | None:
    """Say what a file's models expect around each text, and which line sets it.

    None if the default is that, or the file does not tell.
    """
    frame = family_frame(found, roles)
    if frame is None or (frame.begin is None and frame.end in (None, roles.ids.get("eos"))):
        return None
    names = {number: piece for piece, number in found.pieces.items()}
    sides = ((frame.begin, "before"), (frame.end, "behind"))
    said = [f"{names.get(number, number)} {where}" for number, where in sides if number is not None]
    return f"its models expect {' and '.join(said)} each text: set {_line(frame, roles)}"


def _line(frame: FrameIds, roles: Roles) -> str:
    ids = roles.ids
    if frame.begin == ids.get("bos") and frame.end in (None, ids.get("eos")):
        return 'framing.begin = "bos"'
    if frame.begin == ids.get("cls") and frame.end == ids.get("sep"):
        return 'framing.preset = "bert"'
    return 'framing.preset = "tokenizer"'
