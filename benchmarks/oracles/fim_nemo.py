"""Fill in the middle against the code of NeMo, by chi-square over 100,000 rows of each law.

    pip install --no-deps nemo_toolkit==1.23.0      in an environment of its own
    pip install numba xxhash pydantic scipy         there too
    PYTHONPATH=. python benchmarks/oracles/fim_nemo.py [--rows 100000]

Compared are, of `GPTFIMDataset._permute`: whole outputs for a short text, between its characters and
between its tokens; and for a long one how many rows are transformed, which of them show the suffix
first, and where the two cuts are. Its file is run as it is, beside stand-ins for the classes of Megatron
that it is derived from. Both programs have one tokenizer, whose pieces of two letters make other ids of
what is cut within them. Everything is seeded: two runs print the same.

A prefix-first row whose prefix is empty is the suffix-first row of the same cuts, id for id: whoever
reads rows counts it there, and so does this comparison, for both programs.

Not compared are packed rows as a whole: ours keep room for what is added, NeMo's are cut off. That is a
fault shown here; so are that every row of NeMo's is drawn with a new generator of the one seed, whence
all make the same choices, and that an empty document loses its end.
"""

import argparse
import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import NamedTuple

import numpy as np
from chi_square import Report, numbered
from loading import run_file, stand_in
from numpy.typing import NDArray

from stages.objectives.fim.characters import GROWTH as TEXT_GROWTH
from stages.objectives.fim.characters import Spelling, fill_in_text
from stages.objectives.fim.config import FIM, GROWTH
from stages.objectives.fim.kernel import fill_in_middle
from stages.objectives.rows import StoredRows, Widths
from stages.objectives.vocabulary import vocabulary_of
from stages.objectives.whole_shard import WholeShard

IDS = {"unk": 0, "bos": 1, "eos": 2, "pad": 3, "fim_prefix": 4, "fim_suffix": 5, "fim_middle": 6}
PREFIX, SUFFIX, MIDDLE = (IDS[f"fim_{name}"] for name in ("prefix", "suffix", "middle"))
PIECES = [*"abcdeé日本", "ab", "bc", "cd", "eé", "日本", "本a"]
FIRST = len(IDS)
VOCABULARY = vocabulary_of(FIRST + len(PIECES), IDS)
SHORT, LONG = "ab日本eéabcdé本", 100
DECILES = 10
PLAIN, PREFIX_FIRST, SUFFIX_FIRST = range(3)
FILE = "collections/nlp/data/language_modeling/megatron/gpt_fim_dataset.py"
Rows = list[NDArray[np.int64]]
"""Ids of each row, without an EOS at the end."""


class Letters:
    """A tokenizer that takes the longest piece, with the names that NeMo calls."""

    def __init__(self, pieces: list[str]) -> None:
        self.pieces = pieces
        self.numbers = {piece: FIRST + number for number, piece in enumerate(pieces)}
        self.pairs = any(len(piece) > 1 for piece in pieces)

    def text_to_ids(self, text: str) -> list[int]:
        """Return the ids of a text."""
        found, place = [], 0
        while place < len(text):
            pair = text[place : place + 2] if self.pairs else ""
            piece = pair if pair in self.numbers else text[place]
            found.append(self.numbers[piece])
            place += len(piece)
        return found

    def ids_to_text(self, ids: NDArray[np.integer]) -> str:
        """Return the text of ids."""
        return "".join([self.pieces[number - FIRST] for number in ids.tolist()])

    def tokens_to_ids(self, tokens: list[str]) -> list[int]:
        """Return the ids of special symbols."""
        return [IDS[token] for token in tokens]

    def spelling(self) -> Spelling:
        """Return what ours asks of a tokenizer."""
        pieces = [b""] * FIRST + [piece.encode() for piece in self.pieces]
        return Spelling(
            pieces, lambda texts: [np.array(self.text_to_ids(text), np.int64) for text in texts]
        )


LETTERS = Letters(PIECES)
TOKENS = Letters([piece for piece in PIECES if len(piece) == 1])
"""A character each: between them is between tokens."""


def nemo() -> ModuleType:
    """Return NeMo's file as it is, its base classes stood in for."""

    class GPTDataset:
        def __init__(self, *arguments: object) -> None:
            *_, self.config = arguments

    for package in ("megatron", "megatron.core", "megatron.core.datasets"):
        stand_in(package)
    stand_in("megatron.core.datasets.gpt_dataset", GPTDataset=GPTDataset, GPTDatasetConfig=object)
    stand_in("megatron.core.datasets.indexed_dataset", MMapIndexedDataset=object)
    stand_in("megatron.core.datasets.utils", Split=object)
    installed = importlib.util.find_spec("nemo")
    if installed is None or not installed.submodule_search_locations:
        sys.exit("nemo: not installed; pip install --no-deps nemo_toolkit==1.23.0")
    return run_file(Path(installed.submodule_search_locations[0]) / FILE, "gpt_fim_dataset")


def theirs(module: ModuleType, text: str, config: FIM, *, rows: int, letters: Letters) -> Rows:
    """Return rows of NeMo's, drawn with one generator."""
    dataset = module.GPTFIMDataset(None, None, 0, None, None)
    state = np.random.RandomState(7)  # what NeMo draws with
    sample = np.array(letters.text_to_ids(text))
    return [
        dataset._permute(  # noqa: SLF001  # it has no public name
            sample,
            state,
            config.fim_rate,
            config.fim_spm_rate,
            letters,
            truncate_or_pad=False,
            suffix_tok_id=SUFFIX,
            prefix_tok_id=PREFIX,
            middle_tok_id=MIDDLE,
        )
        for _ in range(rows)
    ]


def ours(text: str, config: FIM, *, rows: int, letters: Letters) -> Rows:
    """Return rows of ours: a document each, the same text in all."""
    return _filled(segmented([letters.text_to_ids(text)], config, rows=rows, letters=letters))


def segmented(
    documents: list[list[int]], config: FIM, *, rows: int, letters: Letters
) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """Return (input_ids, segment_ids) of rows that hold the same documents each, an EOS behind each."""
    sizes = np.array([len(document) + 1 for document in documents])
    ids = np.concatenate([[*document, IDS["eos"]] for document in documents]).astype(np.uint16)
    count, length = len(sizes), int(sizes.sum())
    numbers = np.arange(rows)
    ptr, lengths = count * np.arange(rows + 1), np.tile(sizes, rows)
    stored = StoredRows(
        np.broadcast_to(ids, (rows, length)), ptr, lengths, numbers, seed=7, epoch=0, shard=0
    )
    growth = GROWTH if config.level == "token" else TEXT_GROWTH
    widths = Widths(length, length + count * growth, length + count * growth)
    if config.level == "token":
        columns = fill_in_middle(stored, config, VOCABULARY, widths)
    else:
        segments = {
            "row_ptr": ptr,
            "start": np.tile(np.cumsum(sizes) - sizes, rows),
            "length": lengths,
            "doc": np.arange(count * rows),
            "doc_offset": np.zeros(count * rows, np.int64),
        }
        shard = WholeShard(stored.input_ids, segments, count * rows)
        columns = fill_in_text(
            stored, config, VOCABULARY, widths, shard=shard, spelling=letters.spelling()
        )
        assert not columns["plain"].any(), "a short text has room"
    return columns["input_ids"], columns["segment_ids"]


def _filled(columns: tuple[NDArray[np.integer], NDArray[np.integer]]) -> Rows:
    ends = np.count_nonzero(columns[1] >= 0, axis=1) - 1
    return [row[:end].astype(np.int64) for row, end in zip(columns[0], ends.tolist(), strict=True)]


class Found(NamedTuple):
    """What was read off N rows."""

    kinds: NDArray[np.int64]
    """(N,) plain, prefix first, suffix first."""
    cuts: NDArray[np.int64]
    """(N, 2) how much of the text is before each cut."""
    right: NDArray[np.bool_]
    """(N,) whether the row, put together again, is the text."""


def read(rows: Rows, text: str, letters: Letters) -> Found:
    """Read rows that were made of one text."""
    found = Found(
        np.full(len(rows), PLAIN), np.zeros((len(rows), 2), np.int64), np.zeros(len(rows), np.bool_)
    )
    for number, row in enumerate(rows):
        before, after, between = row[:0], row[:0], row
        if row[0] == PREFIX:
            marks = [np.flatnonzero(row == mark) for mark in (SUFFIX, MIDDLE)]
            if any(len(places) != 1 for places in marks):
                continue
            suffix, middle = (int(places[0]) for places in marks)
            before, after, between = row[1:suffix], row[suffix + 1 : middle], row[middle + 1 :]
            found.kinds[number] = SUFFIX_FIRST if suffix == 1 else PREFIX_FIRST
        parts = [letters.ids_to_text(part) for part in (before, between, after)]
        found.right[number] = "".join(parts) == text
        found.cuts[number] = len(parts[0]), len(text) - len(parts[2])
    return found


def compare_wholes(report: Report, module: ModuleType, rows: int) -> None:
    """Compare all that can become of a short text."""
    for level, letters in (("character", LETTERS), ("token", TOKENS)):
        config = FIM(level=level)
        found = [
            theirs(module, SHORT, config, rows=rows, letters=letters),
            ours(SHORT, config, rows=rows, letters=letters),
        ]
        name = f"{len(SHORT)} characters, cut between {level}s"
        for who, each in zip(("NeMo", "ours"), found, strict=True):
            kinds, _, right = read(each, SHORT, letters)
            again = f"{np.count_nonzero(right):,} of n = {rows:,}"
            report.say(f"{name}: {who} put together again", again, holds=bool(right.all()))
            report.mean(f"{name}: {who} transformed", kinds != PLAIN, expected=0.5)
            size = len(SHORT)
            empty = (2 * size + 1) / (size + 1) ** 2
            first = kinds[kinds != PLAIN] == SUFFIX_FIRST
            report.mean(f"{name}: {who} suffix first", first, expected=0.5 + 0.5 * empty)
        a, b = numbered(*([row.tobytes() for row in each] for each in found))
        report.compare(f"{name}: whole rows", a, b)


def compare_long(report: Report, module: ModuleType, rows: int) -> None:
    """Compare rates and cuts of a long text."""
    text = "".join(np.random.default_rng(3).choice(list("abcdeé日本"), LONG))
    for fim_rate, spm_rate in ((0.9, 0.5), (1.0, 0.0)):
        config = FIM(level="character", fim_rate=fim_rate, fim_spm_rate=spm_rate)
        name = f"{LONG} characters, rates {fim_rate:g} and {spm_rate:g}"
        found = [
            read(rows_, text, LETTERS)
            for rows_ in (
                theirs(module, text, config, rows=rows, letters=LETTERS),
                ours(text, config, rows=rows, letters=LETTERS),
            )
        ]
        for who, each in zip(("NeMo", "ours"), found, strict=True):
            again = f"{np.count_nonzero(each.right):,} of n = {rows:,}"
            report.say(f"{name}: {who} put together again", again, holds=bool(each.right.all()))
        kinds = [each.kinds for each in found]
        report.compare(f"{name}: plain, prefix first, suffix first", kinds[0], kinds[1])
        seconds = [cuts[kind != PLAIN, 1] for kind, cuts, _ in found]
        report.compare(f"{name}: second cut", *seconds)
        report.compare(
            f"{name}: second cut, tenths", *(each * DECILES // (LONG + 1) for each in seconds)
        )
        if spm_rate:
            continue
        firsts = [cuts[:, 0] for _, cuts, _ in found]
        report.compare(f"{name}: first cut", *firsts)
        report.compare(f"{name}: first cut, tenths", *(each * DECILES // (LONG + 1) for each in firsts))
        report.compare(f"{name}: middle", *(cuts[:, 1] - cuts[:, 0] for _, cuts, _ in found))
        lesser = (2 * LONG + 1) / (6 * (LONG + 1))
        for who, (_, cuts, _) in zip(("NeMo", "ours"), found, strict=True):
            report.mean(f"{name}: {who} E[c1]", cuts[:, 0] / LONG, expected=lesser)
            report.mean(f"{name}: {who} E[c2]", cuts[:, 1] / LONG, expected=1 - lesser)


class Options(dict[str, float]):
    """NeMo's options of fill in the middle: some by name, some as attributes."""

    extra_tokens = SimpleNamespace(
        prefix="fim_prefix", middle="fim_middle", suffix="fim_suffix", pad="pad", eod="eos"
    )


def sampled(module: ModuleType, ids: list[int], *, seed: int, rows: int, rate: float) -> Rows:
    """Return rows as NeMo's dataset gives them, the same ids in all."""
    config = SimpleNamespace(fim=Options(rate=rate), tokenizer=LETTERS, random_seed=seed)
    dataset = module.GPTFIMDataset(None, None, rows, None, config)
    dataset.shuffle_index = np.arange(rows)
    dataset.sample_index = np.stack([np.zeros(rows + 1, np.int64), len(ids) * np.arange(rows + 1)], 1)
    dataset.document_index = np.zeros(1, np.int64)
    # whatever part of a document is asked for, it is the same text
    dataset.indexed_dataset = SimpleNamespace(get=lambda *_, **__: np.array(ids))
    query = dataset._query_document_sample_shuffle_indices  # noqa: SLF001  # it has no public name
    return [query(number)[0] for number in range(rows)]


def show_faults(report: Report, module: ModuleType) -> None:
    """Show what NeMo's dataset does, and that ours does not."""
    ids, rows = LETTERS.text_to_ids(SHORT), 1_000
    seeds = range(5)
    ways = [
        len({row.tobytes() for row in sampled(module, ids, seed=seed, rows=rows, rate=0.5)})
        for seed in seeds
    ]
    report.say(
        "fault of NeMo's code: all rows make the same draws",
        f"{max(ways)} way in {rows:,} rows of one text, for each of {len(seeds)} seeds",
        holds=max(ways) == 1,
    )
    config = FIM(level="character")
    our_ways = {row.tobytes() for row in ours(SHORT, config, rows=rows, letters=LETTERS)}
    report.say("ours draws each anew", f"{len(our_ways)} ways in {rows:,} rows", holds=len(our_ways) > 1)
    lost = moved = 0
    for seed in range(rows):
        (row,) = sampled(module, ids, seed=seed, rows=1, rate=1.0)
        moved += row[0] == PREFIX
        lost += not read([row[row != IDS["pad"]]], SHORT, LETTERS).right[0]
    report.say(
        "fault of NeMo's code: transformed rows lose their end",
        f"{lost} of {moved} no longer hold their text",
        holds=lost > 0,
    )
    show_empty(report, module, ids)


def show_empty(report: Report, module: ModuleType, ids: list[int]) -> None:
    """Show what becomes of an empty document between two others."""
    eos = IDS["eos"]
    (row,) = sampled(module, [*ids, eos, eos, *ids, eos, *ids], seed=1, rows=1, rate=0.0)
    kept = int(np.count_nonzero(row == eos))
    report.say(
        "fault of NeMo's code: an empty document loses its end",
        f"{kept} of 3 ends are left, in a row of which nothing is transformed",
        holds=kept == 2,  # noqa: PLR2004  # one of three is lost
    )
    rows = 1_000
    input_ids, segment_ids = segmented(
        [ids, [], ids], FIM(level="character"), rows=rows, letters=LETTERS
    )
    ends = np.count_nonzero(input_ids == eos, axis=1)
    segments = segment_ids.max(axis=1) + 1
    report.say(
        "ours keeps every end",
        f"{ends.min()} of 3 at least, in {rows:,} rows",
        holds=bool((ends == segments).all() and (segments == 3).all()),  # noqa: PLR2004  # documents
    )


def main() -> int:
    """Compare, show, and give the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--rows", type=int, default=100_000, metavar="N", help="of a law [default: 100,000]"
    )
    rows = parser.parse_args().rows
    module, report = nemo(), Report()
    compare_wholes(report, module, rows)
    compare_long(report, module, rows)
    show_faults(report, module)
    return report.status()


if __name__ == "__main__":
    sys.exit(main())
