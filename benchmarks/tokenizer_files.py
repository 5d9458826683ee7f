"""Ids of tokenizer files: ours beside those of each file's own library, document by document.

    tokenizer_files.py 'TEXTS/*.jsonl' FILE NAME=FILE ...

A FILE is a SentencePiece model, a tokenizer.json, a tekken.json, or ranks of tiktoken of a model that is
known. Its library is sentencepiece, tokenizers, Mistral's mistral-common or OpenAI's tiktoken; of Llama
and Qwen, the expression is read from the source of `llama-models` and `dashscope`. Install what the
files need. Texts are cleaned as in a run. The second table is of texts that write out special pieces:
those of `tokenizer verify` for each piece, and all pieces in one text. Exits with 1 if an id is another,
a text gives a special id, or a text that writes specials does not come back from a file that can write
every text.
"""

import argparse
import ast
import glob
import importlib.util
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from contest_material import read_documents

from stages.cleaning.text import clean_text
from stages.tokenizer.codec import Tokenizer
from stages.tokenizer.existing import describe, existing_tokenizer
from stages.tokenizer.proof import untouched
from stages.tokenizer.ranks.encodings import EncodingName
from stages.tokenizer.ranks.tiktoken import encoding_of, read_ranks
from stages.tokenizer.recognised import RecognisedFile, tokenizer_file
from stages.tokenizer.roles import SpecialPieces, find_roles
from stages.tokenizer.stress import SPECIAL_PIECES, stress_texts

BATCH = 256
"""Documents that are encoded in one turn."""
SOURCES = {
    "llama3": ("llama_models", "llama3/tokenizer.py", "pat_str"),
    "llama4": ("llama_models", "llama4/tokenizer.py", "O200K_PATTERN"),
    "qwen": ("dashscope", "tokenizers/qwen_tokenizer.py", "PAT_STR"),
}
"""Where the expressions of models are that tiktoken does not know."""
Ids = Callable[[Sequence[str]], list[list[int] | None]]


def library_of(path: Path, file: RecognisedFile) -> tuple[str, Ids]:
    """Return the name of a file's own library, and what gives its ids."""
    if file.converted is None:
        return file.kind.value, untouched(file.data, file.kind)
    if file.converted == "tekken.json":
        from mistral_common.tokens.tokenizers.tekken import Tekkenizer  # noqa: PLC0415

        tekkenizer = Tekkenizer.from_file(path)
        return "tekken.json", lambda texts: [tekkenizer.encode(t, bos=False, eos=False) for t in texts]
    encoding = encoding_of(read_ranks(path.read_bytes(), name=str(path)))
    assert encoding is not None, f"{path}: ranks of no model that is known"
    return f"ranks, {encoding}", by_tiktoken(path, encoding)


def by_tiktoken(path: Path, encoding: EncodingName) -> Ids:
    """Return what gives the ids of tiktoken, with the expression of the model's own code."""
    import tiktoken  # noqa: PLC0415
    from tiktoken_ext import openai_public  # noqa: PLC0415

    ranks = dict(read_ranks(path.read_bytes(), name=str(path)))
    if encoding in SOURCES:
        made = {"name": encoding, "pat_str": constant(*SOURCES[encoding]), "mergeable_ranks": ranks}
        made |= {"special_tokens": {}}
    else:
        openai_public.load_tiktoken_bpe = lambda *_, **__: ranks  # it would download them
        made = openai_public.ENCODING_CONSTRUCTORS[encoding]()
    library = tiktoken.Encoding(**made)
    form = (lambda text: unicodedata.normalize("NFC", text)) if encoding == "qwen" else str
    return lambda texts: [library.encode_ordinary(form(text)) for text in texts]


def constant(package: str, path: str, name: str) -> str:
    """Return a string of a package's source, which need not be imported."""
    spec = importlib.util.find_spec(package)
    assert spec is not None, f"install {package}"
    source = Path(next(iter(spec.submodule_search_locations or ())), path).read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                return str(ast.literal_eval(node.value))
    raise ValueError(f"{path} has no {name}")


def batches(texts: Sequence[str]) -> Iterator[list[str]]:
    """Yield texts, some at a time."""
    rest = iter(texts)
    while batch := list(islice(rest, BATCH)):
        yield batch


def compared(tokenizer: Tokenizer, library: Ids, texts: Sequence[str]) -> tuple[int, int, int]:
    """Return how many documents were compared, differ, and are too long for unigram's sums."""
    differ = left_out = 0
    for batch in batches(texts):
        for ours, theirs in zip(tokenizer.encode(batch), library(batch), strict=True):
            left_out += theirs is None
            differ += theirs is not None and not np.array_equal(ours, theirs)
    return len(texts) - left_out, differ, left_out


def written_out(tokenizer: Tokenizer, pieces: Sequence[str]) -> dict[str, int]:
    """Return what texts that write out specials give: special ids, and how they come back."""
    texts = [*map(clean_text, stress_texts(pieces)[SPECIAL_PIECES]), clean_text(" ".join(pieces))]
    texts.append(clean_text("".join(pieces)))
    special = np.array(sorted(set(tokenizer.special_ids.values()) - {tokenizer.unk}))
    ids = tokenizer.encode(texts)
    backs = tokenizer.decode(ids)
    same = sum(back == text for back, text in zip(backs, texts, strict=True))
    normal = sum(
        back == tokenizer.normalise(text) != text for back, text in zip(backs, texts, strict=True)
    )
    given = sum(bool(np.isin(row, special).any()) for row in ids)
    rest = len(texts) - same - normal
    return {"pieces": len(pieces), "texts": len(texts), "special": given, "same": same} | {
        "normalised": normal,
        "other": rest,
    }


def measured(name: str, path: Path, texts: Sequence[str]) -> tuple[str, str, bool]:
    """Return the rows of both tables for a file, and whether it passes."""
    began = time.process_time()
    file = tokenizer_file(path.read_bytes(), name=str(path))
    seconds = time.process_time() - began
    described = describe(file.data, file.kind, name=str(path))
    roles = find_roles(described, SpecialPieces(), name=path.name).ids
    kept = set(roles.values()) - {described.declared.get("unk")}
    ids = {"pad": min(kept), "eos": min(kept), **roles}
    tokenizer = existing_tokenizer(file.data, file.kind, ids, name=str(path)).unguarded()
    kind, library = library_of(path, file)
    documents, differ, left_out = compared(tokenizer, library, texts)
    pieces = [piece for piece, number in described.pieces.items() if number in kept]
    found = written_out(tokenizer, pieces)
    row = f"| {name} | {kind} | {described.size:,} | {seconds:.1f} | {documents:,} | {differ:,} |"
    special = " | ".join(f"{value:,}" for value in found.values())
    passes = not differ and not found["special"] and (not found["other"] or not tokenizer.writes_all)
    return f"{row} {left_out:,} |", f"| {name} | {special} |", passes


def main() -> int:
    """Compare, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("corpus", help="files of JSON lines")
    parser.add_argument("files", nargs="+", help="tokenizers: FILE or NAME=FILE")
    arguments = parser.parse_args()
    paths = [Path(path) for path in sorted(glob.glob(arguments.corpus))]  # noqa: PTH207
    texts = [clean_text(document.text) for path in paths for document in read_documents(path)]
    rows, special, passes = [], [], True
    for given in arguments.files:
        name, _, place = given.rpartition("=")
        row, own, holds = measured(name or Path(place).name, Path(place), texts)
        rows.append(row)
        special.append(own)
        passes &= holds
        print(row, file=sys.stderr)
    print("| file | kind | ids | CPU s to convert | documents | differ | left out |")
    print("|---|---|---:|---:|---:|---:|---:|", *rows, sep="\n")
    print("\n| file | specials | texts | with a special id | text | normalised text | other |")
    print("|---|---:|---:|---:|---:|---:|---:|", *special, sep="\n")
    return int(not passes)


if __name__ == "__main__":
    sys.exit(main())
