"""Grain: ArrayRecordDataSource, each record a tf.train.Example with one list of ids."""

from collections.abc import Iterator

import numpy as np
from answers import Answer, Facts, lengths_by_eos, read_facts, stream_answer, tell
from grain.sources import ArrayRecordDataSource
from numpy.typing import NDArray

CONTINUED = 0x80


def _varints(content: bytes) -> list[int]:
    values, value, shift = [], 0, 0
    for byte in content:
        value |= (byte & ~CONTINUED) << shift
        shift += 7
        if byte < CONTINUED:
            values.append(value)
            value, shift = 0, 0
    return values


def _fields(content: bytes) -> dict[int, bytes]:
    """Return the fields of a message, all of which have a length."""
    found, at = {}, 0
    while at < len(content):
        tag, at = content[at], at + 1
        end = at + next(number for number, byte in enumerate(content[at:], 1) if byte < CONTINUED)
        (size,) = _varints(content[at:end])
        found[tag >> 3] = content[end : end + size]
        at = end + size
    return found


def ids_of(record: bytes) -> NDArray[np.int64]:
    """Return the ids of an Example whose only feature is called text."""
    entry = _fields(_fields(_fields(record)[1])[1])
    assert entry[1] == b"text", "MaxText reads the feature text"
    return np.array(_varints(_fields(_fields(entry[2])[3])[1]), np.int64)


def answers(facts: Facts) -> Iterator[Answer]:
    """Yield the stream of each split, its documents up to each EOS."""
    for split in facts.splits:
        files = sorted(map(str, (facts.folder / split).glob("*.array_record")))
        source = ArrayRecordDataSource(files)
        parts = [ids_of(source[number]) for number in range(len(source))]
        lengths = lengths_by_eos(np.concatenate(parts), facts.special_ids["eos"])
        yield stream_answer(split, parts, lengths)


if __name__ == "__main__":
    tell(answers(read_facts()))
