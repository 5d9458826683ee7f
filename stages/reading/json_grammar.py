r"""JSON grammar: where a value ends, or the first byte that cannot be there. No value is held or parsed.

    {"text": "a"}, {"text": "b"}      the value ends at the comma
    {"text": "a", {"text": "b"}       broken at the second {: a name must be there

Brackets, strings, commas and colons are held to RFC 8259, with a stack of the brackets that are open.
What numbers, words and strings hold is left to the parser: a wrong one moves no end. A string never
holds a line feed, which JSON forbids, so a missing quote is noticed where its line ends, or before.
"""

import numpy as np
from numpy.typing import NDArray

from stages.kernels import kernel

DEEPEST = 1024
"""Brackets that may be open; the parser takes no more."""
NEED, DEPTH, STRING, FAULT = 0, 1, 2, 3
"""Numbers of a state: what must come, the open brackets, where in a string it is, what is wrong."""
VALUE, VALUE_OR_END, NAME, NAME_OR_END, COLON, AFTER, WORD = range(7)
"""What must come. `WORD` is inside of a number or a word."""
UNEXPECTED, LINE_FEED, INNER_LIST, TOO_DEEP = range(1, 5)
"""What may be wrong."""
_QUOTE, _ESCAPE, _FEED, _COMMA, _COLON = ord('"'), ord("\\"), ord("\n"), ord(","), ord(":")
_OPEN, _CLOSE, _BEGIN, _END = ord("["), ord("]"), ord("{"), ord("}")
_INSIDE, _ESCAPED = 1, 2
"""Of a string, and behind its escape character; 0 is outside."""
_WHITE, _LETTER, _OTHER = 0, 1, 2
_CLASSES = np.full(256, _OTHER, np.uint8)
"""Of the bytes outside of strings; punctuation is looked at itself."""
_CLASSES[list(b" \t\r\n")] = _WHITE
_CLASSES[list(b"+-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz")] = _LETTER


def fresh_state() -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return the state of a value that begins, (4,), and the stack of its brackets, (DEEPEST,)."""
    return np.zeros(4, np.int64), np.zeros(DEEPEST, np.uint8)


@kernel
def value_end(  # noqa: C901, PLR0912  # one state machine
    data: NDArray[np.uint8],
    start: int,
    state: NDArray[np.int64],
    stack: NDArray[np.uint8],
    in_list: bool,  # noqa: FBT001  # compiled code takes no keywords
) -> int:
    """Return where a value ends, or with `state[FAULT]` where it is broken; -1 if the data ends first.

    In a list that is the comma, bracket or object behind it; elsewhere the byte behind its last.
    """
    need, depth, string, found, fault, place = state[0], state[1], state[2], -1, 0, start
    while place < len(data) and found < 0:
        byte = data[place]
        if string:
            if byte == _FEED:
                found, fault = place, LINE_FEED
            elif string == _ESCAPED or byte == _ESCAPE:
                string = _INSIDE if string == _ESCAPED else _ESCAPED
            elif byte == _QUOTE:
                string = 0
                need = COLON if need in (NAME, NAME_OR_END) else AFTER
                if depth == 0 and not in_list:
                    found = place + 1
            place += 1
            continue
        kind = _CLASSES[byte]
        if need == WORD and kind != _LETTER:
            need = AFTER
        if depth == 0 and need == AFTER and (not in_list or byte in (_COMMA, _CLOSE, _BEGIN)):
            found = place
        elif kind == _WHITE or (kind == _LETTER and need == WORD):
            pass
        elif byte == _QUOTE and need < COLON:
            string = _INSIDE
        elif kind == _LETTER and need < NAME:
            need = WORD
        elif byte in (_OPEN, _BEGIN) and need < NAME:
            if depth == len(stack):
                found, fault = place, TOO_DEEP
            elif byte == _BEGIN and depth and stack[0] == _OPEN:
                found, fault = place, INNER_LIST
            else:
                stack[depth] = byte
                depth, need = depth + 1, NAME_OR_END if byte == _BEGIN else VALUE_OR_END
        elif (
            byte == _END and depth and stack[depth - 1] == _BEGIN and need in (NAME_OR_END, AFTER)
        ) or (byte == _CLOSE and depth and stack[depth - 1] == _OPEN and need in (VALUE_OR_END, AFTER)):
            depth, need = depth - 1, AFTER
            if depth == 0 and not in_list:
                found = place + 1
        elif byte == _COMMA and need == AFTER and depth:
            need = NAME if stack[depth - 1] == _BEGIN else VALUE
        elif byte == _COLON and need == COLON:
            need = VALUE
        else:
            found, fault = place, UNEXPECTED
        place += 1
    state[0], state[1], state[2], state[3] = need, depth, string, fault
    return found
