"""Framed documents and rows against transformers' tokenizers, document by document.

    pip install transformers      in an environment that has this program
    PYTHONPATH=. python benchmarks/oracles/framing_transformers.py 'CORPUS/*.jsonl.gz' FOLDER

Five tokenizers of transformers' own classes are made from the bundled corpus; with `--files llama=DIR`
one is read from public files in their place (vocab.json and merges.txt, vocab.txt, tokenizer.model or
spiece.model, as its class names them), and only those presets are compared. A run encodes the first
documents of a corpus with each, framed by the preset of that name; then each document of the token store
is compared with what the class gives of the cleaned text, special ids included. GPT-2's class puts
nothing around a text, so its EOS is added.

With BERT's and RoBERTa's, rows are framed too, by `framing.per = "row"` and one document a row: the
rows of each document are compared with what the class gives of its text with `truncation` and
`return_overflowing_tokens`.
"""

import argparse
import glob
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import orjson
import pyarrow.parquet as pq
from transformers import PreTrainedTokenizerFast

from pipeline.run_file.config import RunFile
from pipeline.session.request import RunRequest
from pipeline.session.session import run_session
from stages.cleaning.text import clean_text
from stages.reading.decompress import stream_chunks
from stages.reading.lines import split_lines
from stages.store.token_store import TokenUnit
from tests.stages.tokenizer.framed_files import read_tokenizer, tokenizer_of

PRESETS = ("gpt2", "llama", "bert", "roberta", "t5")
BY_ROW = ("bert", "roberta")
LENGTH = 128
"""Tokens of a row."""


def documents(patterns: list[str], number: int) -> list[str]:
    """Return the texts of the first records of all files in turn, so that all languages are there."""
    streams = [_texts(path) for pattern in patterns for path in sorted(glob.glob(pattern))]  # noqa: PTH207
    found: list[str] = []
    while streams and len(found) < number:
        going = []
        for stream in streams:
            part = list(islice(stream, 20))
            found += part
            if part:
                going.append(stream)
        streams = going
    return found[:number]


def _texts(path: str) -> Iterator[str]:
    for line in split_lines(stream_chunks(Path(path)), max_bytes=1 << 26):
        yield orjson.loads(line.data)["text"]


def run_of(folder: Path, preset: str, *, per: str = "document") -> Path:
    """Encode the documents with the tokenizer of a class, and lay out rows if they are framed."""
    file = RunFile.model_validate(
        {
            "sources": [{"name": "some", "paths": ["texts.jsonl"], "id_column": "id"}],
            "dedup": {"exact": False, "near": False},
            "tokenizer": {"path": f"{preset}/tokenizer.json"},
            "framing": {"preset": preset, "per": per},
            "packing": {"seq_len": LENGTH, "strategy": "document"},
            "validation": {"fraction": 0.0},
            "datasets": [{"name": "rows", "objective": {"kind": "mlm" if per == "row" else "clm"}}],
        }
    )
    output, until = folder / f"run-{preset}-{per}", "shard" if per == "row" else "decode"
    run_session(RunRequest(file, folder, output, 0, until=until, replace=True), stream=None)
    return output


def stored(output: Path) -> Iterator[tuple[int, list[int]]]:
    """Yield the own id of each document of a run and its ids."""
    for place in sorted((output / "tokens").rglob("documents.parquet")):
        store = TokenUnit.open(place.parent)
        names = pq.read_table(place).column("own_id").to_pylist()
        for name, (first, last) in zip(names, store.places.tolist(), strict=True):
            yield int(name), store.ids[first:last].tolist()


def rows_of(output: Path) -> Iterator[tuple[int, list[list[int]]]]:
    """Yield the own id of each document of a run, and its rows in order without their padding."""
    pad = orjson.loads((output / "tokenizer" / "special_ids.json").read_bytes())["pad"]
    for shard in sorted((output / "datasets" / "rows" / "train" / "epoch-0000").iterdir()):
        ids = np.load(shard / "input_ids.npy")
        doc, offset = (np.load(shard / "segments" / f"{name}.npy") for name in ("doc", "doc_offset"))
        names = pq.read_table(shard / "documents.parquet").column("own_id").to_pylist()
        found: dict[int, list[list[int]]] = {}
        for row in np.lexsort((offset, doc)):
            found.setdefault(int(names[doc[row]]), []).append(ids[row][ids[row] != pad].tolist())
        yield from found.items()


def compare_rows(folder: Path, preset: str, theirs: PreTrainedTokenizerFast, texts: list[str]) -> int:
    """Print and return how many documents have other rows than their class gives."""
    compared = rows = other = 0
    for number, found in rows_of(run_of(folder, preset, per="row")):
        wanted = theirs(
            clean_text(texts[number]),
            split_special_tokens=True,
            truncation=True,
            max_length=LENGTH,
            return_overflowing_tokens=True,
        )["input_ids"]
        compared, rows, other = compared + 1, rows + len(wanted), other + (found != wanted)
    print(f"{preset}: {rows:,} rows of {compared:,} documents, {other:,} with other rows")
    return other


def main() -> int:
    """Compare the documents of all five, and the rows of two; return 1 if any differs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("corpus", nargs="+", metavar="GLOB")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--documents", type=int, default=5000)
    parser.add_argument("--files", nargs="+", default=[], metavar="PRESET=DIR")
    given = parser.parse_args()
    public = dict(pair.split("=", 1) for pair in given.files)
    texts = documents(given.corpus, given.documents)
    given.folder.mkdir(parents=True, exist_ok=True)
    lines = (orjson.dumps({"id": number, "text": text}) + b"\n" for number, text in enumerate(texts))
    (given.folder / "texts.jsonl").write_bytes(b"".join(lines))
    wrong = 0
    for preset in public or PRESETS:
        place = given.folder / preset
        place.mkdir(exist_ok=True)
        theirs = read_tokenizer(preset, Path(public[preset])) if public else tokenizer_of(preset, place)
        theirs.save_pretrained(place)
        closed = [theirs.eos_token_id] if preset == "gpt2" else []
        compared = other = 0
        for number, ids in stored(run_of(given.folder, preset)):
            wanted = theirs(clean_text(texts[number]), split_special_tokens=True)["input_ids"]
            compared += 1
            other += ids != [*wanted, *closed]
        wrong += other
        print(f"{preset}: {compared:,} documents, {other:,} with other ids")
        if preset in BY_ROW:
            wrong += compare_rows(given.folder, preset, theirs, texts)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
