"""Post-processors: what a tokenizer.json puts around a text.

TemplateProcessing   [CLS] $A [SEP]        its template of one text
BertProcessing       [CLS] $A [SEP]        cls and sep
RobertaProcessing    <s> $A </s>           cls and sep
Sequence             of any of these
ByteLevel            nothing
"""

from collections.abc import Iterator, Mapping, Sequence

import orjson

from stages.errors import FormatError
from stages.tokenizer.framing import FrameIds

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
