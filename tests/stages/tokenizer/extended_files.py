"""Tokenizer files with a few pieces more, put in by hand."""

import json
import struct

from tests.stages.tokenizer.existing_files import data_of

ADDED = "<|turn|>"
"""A special token of the extended tokenizer.json."""


def extended_model(*pieces: str, kind: int = 1) -> bytes:
    """Return the BPE model with pieces more; of kind 3 they are control symbols."""
    data = data_of("llama-model")
    for number, piece in enumerate(pieces):
        text = piece.encode()
        score = b"\x15" + struct.pack("<f", -10_000.0 - number)
        content = bytes([0x0A, len(text)]) + text + score + bytes([0x18, kind])
        data += bytes([0x0A, len(content)]) + content
    return data


def extended_gpt2(*merges: tuple[str, str]) -> bytes:
    """Return the byte-level file with merges more, and one special token."""
    file = json.loads(data_of("gpt2"))
    model = file["model"]
    for one, two in merges:
        model["merges"].append([one, two])
        model["vocab"][one + two] = len(model["vocab"])
    token = {"content": ADDED, "id": len(model["vocab"]), "special": True}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    file["added_tokens"].append(token | flags)
    return json.dumps(file).encode()
