"""The framing of a file's own model family: what its models expect around each text.

    the post-processor of a tokenizer.json, and of what was made from ranks or tekken.json
    [CLS] and [SEP] set apart: BERT, ELECTRA, ALBERT
    a piece that begins texts: Llama, Mistral, Gemma, DeepSeek

It is offered where the run file says nothing of framing, and never taken unasked.
"""

from stages.errors import FormatError
from stages.tokenizer.framing import FrameIds
from stages.tokenizer.roles import Described, Roles

_BERT = ("[CLS]", "[SEP]")


def family_frame(found: Described, roles: Roles) -> FrameIds | None:
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


def framing_offer(found: Described, roles: Roles) -> str | None:
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
