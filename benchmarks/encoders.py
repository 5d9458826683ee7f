"""BPE ids of a corpus: ours beside those of the model's library and of gigatoken, by class of language.

    encoders.py MODEL 'CORPUS/*.jsonl.zst'
    encoders.py MODEL 'CORPUS/*.jsonl.zst' --limit 50MB

MODEL is a SentencePiece BPE model of a run, or a tokenizer.json of byte-level BPE. Texts are read a few
megabytes at a time; each batch is encoded by all in turns, and every document's ids are compared with
the library's. Ours and gigatoken begin without any word known and keep what they learn, as in a run.
Rates are of CPU seconds, one thread. gigatoken is left out if it is not installed (`pip install
gigatoken`); it is given a SentencePiece model with control pieces renamed, for it would take them from
the text. Exits with 1 if an id of ours is another.
"""

import argparse
import glob
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from contest_material import MEGA, read_documents
from numpy.typing import NDArray
from pydantic import ByteSize, TypeAdapter

from stages.cleaning.text import clean_text
from stages.scripts import UNSPACED
from stages.tokenizer.encode import load_trained
from stages.tokenizer.existing import TokenizerKind, describe
from stages.tokenizer.huggingface_file import HuggingFaceFile
from stages.tokenizer.recognised import tokenizer_file
from stages.tokenizer.sampling import SPACE_SYMBOL
from stages.tokenizer.sentencepiece_model import PieceType, SentencePieceModel, varint
from stages.tokenizer.texts import joined_texts

BATCH = 4 << 20
"""Characters that are encoded in one turn."""
CODE = "code-"
LIBRARY = "library"
Encode = Callable[[Sequence[str]], list[NDArray[np.integer]]]


def classes(paths: Iterable[Path], limit: int | None) -> Iterator[tuple[str, list[str]]]:
    """Yield batches of texts of one class: code, spaced or unspaced scripts."""
    held: defaultdict[str, list[str]] = defaultdict(list)
    sizes: defaultdict[str, int] = defaultdict(int)
    read: defaultdict[str, int] = defaultdict(int)
    for path in paths:
        for document in read_documents(path):
            text = clean_text(document.text)
            name = class_of(path, text)
            if limit is not None and read[name] >= limit:
                continue
            read[name] += len(text.encode())
            held[name].append(text)
            sizes[name] += len(text)
            if sizes[name] >= BATCH:
                yield name, held.pop(name)
                sizes[name] = 0
    yield from held.items()


def class_of(path: Path, text: str) -> str:
    """Return the class of a text: by the file of code, else by its first hundred characters."""
    if path.name.startswith(CODE):
        return "code"
    unspaced = sum(UNSPACED.match(character) is not None for character in text[:100])
    return "unspaced script" if unspaced > len(text[:100]) / 3 else "spaced script"


def gigatoken(model: Path) -> Encode | None:
    """Return gigatoken's encoder of a model, if it is installed."""
    try:
        from gigatoken import Tokenizer as Peer  # noqa: PLC0415  # it need not be there
    except ImportError:
        return None
    data = model.read_bytes()
    peer = Peer.from_json(data.decode()) if is_json(model) else Peer.from_sentencepiece(renamed(data))
    return lambda texts: [np.asarray(peer.encode(text)) for text in texts]


def is_json(model: Path) -> bool:
    """Say whether a model is a tokenizer.json."""
    return tokenizer_file(model.read_bytes(), name=str(model)).kind is TokenizerKind.HUGGING_FACE


def ours_and_library(model: Path) -> tuple[Encode, Encode]:
    """Return our encoder of a model and that of its library, its kernels compiled."""
    warm = [f"kernels{SPACE_SYMBOL}are compiled"]
    if not is_json(model):
        tokenizer = load_trained(model)
        assert tokenizer.compiled, f"{model} is no plain BPE model"
        tokenizer.encode(warm)
        return tokenizer.encode, tokenizer.encode_by_library
    data = tokenizer_file(model.read_bytes(), name=str(model)).data
    special = describe(data, TokenizerKind.HUGGING_FACE, name=str(model)).controls
    file = HuggingFaceFile.open(data, special, name=str(model))
    assert file.compiled, f"{model} is not encoded in compiled code"

    def encode(texts: Sequence[str]) -> list[NDArray[np.integer]]:
        joined = joined_texts([text.encode() for text in texts])
        return file.encode_texts(joined, dtype=np.dtype(np.int32)).parts()

    encode(warm)
    return encode, file.encode_by_library


def renamed(data: bytes) -> bytes:
    """Return a model whose control pieces have names that stand in no text."""
    model, parts, place = SentencePieceModel(data), [], 0
    pieces = np.flatnonzero(model.fields.numbers == 1)
    begins, ends = model.extents
    for piece in np.flatnonzero(model.types == PieceType.CONTROL).tolist():
        field = pieces[piece]
        start, begin, stop = (
            int(column[field])
            for column in (model.fields.starts, model.fields.begins, model.fields.stops)
        )
        name = f"\ue000{piece}\ue001".encode()
        content = b"\x0a" + varint(len(name)) + name + data[int(ends[piece]) : stop]
        assert data[begin : int(begins[piece])] == b"\x0a" + varint(int(ends[piece] - begins[piece]))
        parts += [data[place:start], b"\x0a" + varint(len(content)) + content]
        place = stop
    return b"".join([*parts, data[place:]])


def measure(
    batches: Iterable[tuple[str, list[str]]], encoders: dict[str, Encode]
) -> dict[str, dict[str, Any]]:
    """Return seconds, bytes, documents and differing documents of each class, by encoder."""
    found: dict[str, dict[str, Any]] = {}
    for turn, (name, texts) in enumerate(batches):
        row = found.setdefault(name, {"bytes": 0, "documents": 0, "seconds": {}, "differ": {}})
        row["bytes"] += sum(len(text.encode()) for text in texts)
        row["documents"] += len(texts)
        ids: dict[str, list[NDArray[np.integer]]] = {}
        names = list(encoders)
        for other in names[turn % len(names) :] + names[: turn % len(names)]:
            began = time.process_time()
            ids[other] = encoders[other](texts)
            row["seconds"][other] = row["seconds"].get(other, 0.0) + time.process_time() - began
        for other in names[1:]:
            pairs = zip(ids[names[0]], ids[other], strict=True)
            different = sum(not np.array_equal(first, second) for first, second in pairs)
            row["differ"][other] = row["differ"].get(other, 0) + different
        print(f"{name}: {row['bytes'] / MEGA:,.0f} MB", file=sys.stderr)
    return found


def table(found: dict[str, dict[str, Any]]) -> str:
    """Return rates, ours as a multiple of the library's, and documents that differ, as a table."""
    every: dict[str, Any] = {"bytes": 0, "documents": 0, "seconds": {}, "differ": {}}
    for row in found.values():
        for key in ("bytes", "documents"):
            every[key] += row[key]
        for key in ("seconds", "differ"):
            for name, value in row[key].items():
                every[key][name] = every[key].get(name, 0) + value
    names = list(every["seconds"])
    lines = [f"| texts | MB | documents | {' | '.join(names)} | ours : {LIBRARY} | differ |"]
    lines.append("|---|---:|---:|" + "---:|" * (len(names) + 2))
    for name, row in [*sorted(found.items()), ("all", every)]:
        rates = {one: row["bytes"] / MEGA / max(row["seconds"][one], 1e-9) for one in names}
        differ = ", ".join(f"{one} {number:,}" for one, number in row["differ"].items())
        cells = [f"{row['bytes'] / MEGA:,.1f}", f"{row['documents']:,}"]
        cells += [f"{rates[one]:.1f}" for one in names]
        cells += [f"{rates['ours'] / rates[LIBRARY]:.1f}", differ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    """Encode, compare, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("corpus", help="files of JSON lines")
    parser.add_argument("--limit", help="of each class, such as 50MB [default: all]")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    arguments = parser.parse_args()
    limit = None if arguments.limit is None else TypeAdapter(ByteSize).validate_python(arguments.limit)
    ours, library = ours_and_library(arguments.model)
    encoders: dict[str, Encode] = {LIBRARY: library, "ours": ours}
    peer = gigatoken(arguments.model)
    if peer is not None:
        encoders["gigatoken"] = peer
    paths = [Path(path) for path in sorted(glob.glob(arguments.corpus))]  # noqa: PTH207
    found = measure(classes(paths, limit), encoders)
    print(table(found))
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")
    return int(any(row["differ"]["ours"] for row in found.values()))


if __name__ == "__main__":
    sys.exit(main())
