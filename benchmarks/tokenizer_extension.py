"""Extends tokenizers by Thai and Korean pieces, and measures what that saves and what it changes.

    python benchmarks/tokenizer_extension.py --text texts --held held tokenizer.model tokenizer.json ...

`texts` has JSON lines with `text` and `lang` to learn from, `held` other documents of the same form.
Every tokenizer is extended by `--pieces` in one go, and by half as many for each language alone. Printed
are, by language of the held-out documents: tokens before and after, documents and tokens that changed,
new pieces that are used, and seconds.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pipeline.commands.tokenizer_extend import ExtendRequest, extend_tokenizer
from pipeline.inputs.languages import text_files, texts_of_file
from stages.tokenizer.existing import ExistingTokenizer, TokenizerKind, describe, existing_tokenizer
from stages.tokenizer.extension.drift import Drift
from stages.tokenizer.roles import SpecialPieces, find_roles
from stages.tokenizer.texts import joined_texts

INT32 = np.dtype(np.int32)


def opened(path: Path) -> ExistingTokenizer:
    """Return a tokenizer with the special ids that it has."""
    data = path.read_bytes()
    of_json = data.lstrip().startswith(b"{")
    kind = TokenizerKind.HUGGING_FACE if of_json else TokenizerKind.SENTENCEPIECE
    ids = find_roles(describe(data, kind, name=path.name), SpecialPieces(), name=path.name).ids
    return existing_tokenizer(data, kind, {"pad": ids["eos"], **ids}, name=path.name)


def measured(before: ExistingTokenizer, after: ExistingTokenizer, held: Path) -> Iterator[str]:
    """Yield a line for each language of the held-out documents."""
    sizes = np.fromiter(map(len, after.piece_bytes()), np.int64, after.vocab_size)
    drifts: dict[str, Drift] = {}
    used: dict[str, set[int]] = {}
    for path in text_files(held, "--held"):
        for language, texts in texts_of_file(path):
            joined = joined_texts([text.encode() for text in texts])
            old, new = (one.encode_texts(joined, dtype=INT32) for one in (before, after))
            drifts.setdefault(language, Drift()).add(old, new, sizes, listed=False)
            found = np.unique(new.ids)
            used.setdefault(language, set()).update(found[found >= before.vocab_size].tolist())
    for language, drift in sorted(drifts.items()):
        share = drift.tokens_after / max(drift.tokens_before, 1)
        yield (
            f"  {language:16} {drift.same_documents:6,} of {drift.documents:6,} documents the same"
            f"  tokens {drift.tokens_before:10,} -> {drift.tokens_after:10,} ({share:.2%})"
            f"  changed {drift.share:.4%}  new pieces used {len(used[language]):6,}"
        )


def main() -> None:
    """Extend each tokenizer, and print what is found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--held", type=Path, required=True)
    parser.add_argument("--pieces", type=int, default=8000)
    parser.add_argument("--languages", nargs="+", default=["th", "ko"])
    given = parser.parse_args()
    groups = [tuple(given.languages), *((one,) for one in given.languages)]
    for model in given.models:
        for languages in groups:
            pieces = given.pieces * len(languages) // len(given.languages)
            with tempfile.TemporaryDirectory() as folder:
                output = Path(folder) / f"extended{'.json' if model.suffix == '.json' else '.model'}"
                begin = time.perf_counter()
                request = ExtendRequest(model, (given.text,), pieces, output, languages)
                found = extend_tokenizer(request)
                seconds = time.perf_counter() - begin
                print(f"{model}: {pieces:,} pieces for {' and '.join(languages)}, {seconds:.1f} s")
                print(f"  {found['parts_only']:,} are only parts of others")
                print(*measured(opened(model), opened(output), given.held), sep="\n")


if __name__ == "__main__":
    main()
