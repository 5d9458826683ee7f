"""BART's noises against the code of fairseq, by chi-square over 100,000 rows of each law.

    pip install torch numba xxhash pydantic scipy                           in an environment of its own
    pip download --no-deps --no-binary fairseq fairseq==0.12.2              it installs nowhere any more
    tar xzf fairseq-0.12.2.tar.gz
    PYTHONPATH=. python benchmarks/oracles/denoising_fairseq.py fairseq-0.12.2 [--rows 100000]

Two files of it, `fairseq/data/denoising_dataset.py` and `data_utils.py`, are run as they are, beside
stand-ins for what they import. Compared are rows of `DenoisingDataset` whose noise is meant to be ours:
deletion and sentence permutation as a whole, rotation by what comes first, infilling as follows.

fairseq draws where its spans begin whatever their lengths. They may overlap, swallow each other or pass
the end; then too few tokens are hidden, a fault that is shown. Of rows of which that is not so, those
with K spans that hide something are as likely as ours, times C(n - B + K, K) / C(n, K). So they are
compared with those of ours that are kept with that chance: whole rows if they are short; of long ones
the number of masks, the first and the last gap, and what each fifth hides. The table of Poisson's law is
compared number by number.

Not compared: whole rows with overlapping spans; masks that hide one token each and random ids in the
place of masks, which ours has not; permutation of a part of the sentences, for the share of ours is one
of rows; and where sentences end, which a splitter says, not the id of a full stop.

Further faults shown: noise is drawn with torch while numpy alone is seeded, so the same seed, epoch and
index give other rows; the stored document is masked in place; of n + 1 rotations two are none.
"""

import argparse
import math
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch
from chi_square import Report, numbered
from loading import run_file, stand_in
from numpy.typing import NDArray

from stages.objectives.bart.config import BART, budget, poisson_thresholds, span_lengths
from stages.objectives.bart.kernel import add_noise
from stages.objectives.bart.permuted_sentences import permute_and_add_noise
from stages.objectives.rows import StoredRows, Widths, single_segments
from stages.objectives.vocabulary import vocabulary_of
from stages.objectives.whole_shard import WholeShard
from stages.ragged import ragged_of

IDS = {"bos": 0, "pad": 1, "eos": 2, "unk": 3, "mask": 4, "stop": 5}
BOS, EOS, MASK, STOP = (IDS[name] for name in ("bos", "eos", "mask", "stop"))
FIRST = len(IDS)
VOCABULARY = vocabulary_of(2_048, {name: number for name, number in IDS.items() if name != "stop"})
SHORT = ((10, 0.3, 3.0), (8, 0.5, 1.0))
"""Tokens of a row, share hidden, mean of Poisson's law."""
LONG = ((100, 0.1, 3.5),)
FIFTHS = 5
Bodies = list[NDArray[np.int64]]
"""What stands between BOS and EOS."""
Options = dict[str, float | str]
"""Of fairseq's command line."""


class Words:
    """What fairseq asks of a dictionary."""

    def bos(self) -> int:
        """Return the id of BOS."""
        return BOS

    def eos(self) -> int:
        """Return the id of EOS."""
        return EOS

    def index(self, name: str) -> int:
        """Return the id of GPT-2's full stop."""
        assert name == "13", "nothing else is asked for"
        return STOP

    def __len__(self) -> int:
        """Return how many ids there are."""
        return VOCABULARY.size


def fairseq(folder: Path) -> ModuleType:
    """Return fairseq's file as it is, what it imports stood in for."""
    stand_in("fairseq", utils=None)
    stand_in("fairseq.file_io", PathManager=None)
    stand_in("fairseq.data", FairseqDataset=object)
    data = folder / "fairseq" / "data"
    utils = run_file(data / "data_utils.py", "fairseq.data.data_utils")
    stand_in("fairseq.data", FairseqDataset=object, data_utils=utils)
    return run_file(data / "denoising_dataset.py", "fairseq.data.denoising_dataset")


def dataset_of(
    module: ModuleType, rows: list[torch.Tensor], options: Options, *, seed: int | None = None
) -> Any:
    """Return fairseq's dataset over some rows; without a seed its draws go on from row to row."""
    usual: Options = {
        "mask": 0.0,
        "mask_random": 0.0,
        "insert": 0.0,
        "rotate": 0.0,
        "permute_sentences": 0.0,
        "bpe": "gpt2",
        "replace_length": 1,
        "mask_length": "span-poisson",
        "poisson_lambda": 3.0,
    }
    return module.DenoisingDataset(
        rows,
        None,
        Words(),
        MASK,
        mask_whole_words=None,
        shuffle=False,
        seed=seed,
        args=SimpleNamespace(**{**usual, **options}),
    )


def row_of(body: NDArray[np.int64]) -> torch.Tensor:
    """Return a row as fairseq stores it."""
    return torch.from_numpy(np.concatenate([[BOS], body, [EOS]]))


def theirs(module: ModuleType, body: NDArray[np.int64], rows: int, options: Options) -> Bodies:
    """Return rows of fairseq's, all made of one body."""
    torch.manual_seed(7)
    np.random.seed(7)  # noqa: NPY002  # what fairseq draws with
    dataset = dataset_of(module, [row_of(body) for _ in range(rows)], options)
    return [dataset[number]["source"].numpy()[1:-1] for number in range(rows)]


def stored(body: NDArray[np.int64], rows: int) -> StoredRows:
    """Return rows as ours stores them: the same body in all, an EOS behind it."""
    ids = np.append(body, EOS).astype(np.uint16)
    ptr, lengths = single_segments(np.full(rows, len(ids)))
    repeated = np.broadcast_to(ids, (rows, len(ids)))
    return StoredRows(repeated, ptr, lengths, np.arange(rows), seed=7, epoch=0, shard=0)


def widths_of(length: int) -> Widths:
    """Return widths with room for any number of masks that hide nothing."""
    return Widths(length + 1, 4 * length + 64, length + 1)


def ours(body: NDArray[np.int64], config: BART, rows: int) -> Bodies:
    """Return rows of ours, all made of one body."""
    columns = add_noise(stored(body, rows), config, VOCABULARY, widths_of(len(body)))
    return _bodies(columns["input_ids"], columns["input_length"])


def _bodies(input_ids: NDArray[np.integer], lengths: NDArray[np.integer]) -> Bodies:
    pairs = zip(input_ids.astype(np.int64), lengths.tolist(), strict=True)
    return [row[1 : length - 1] for row, length in pairs]


def places(length: int) -> NDArray[np.int64]:
    """Return a body whose ids say where they stand."""
    return np.arange(FIRST, FIRST + length)


def kept_tokens(body: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where the tokens of a noised body stood."""
    return body[body >= FIRST] - FIRST


def apart_chances(length: int, config: BART, rows: int) -> NDArray[np.float64]:
    """Return the chance that fairseq's spans lie apart with the lengths of each row of ours: (N,)."""
    source, hidden = stored(places(length), rows), budget(config.mask_ratio, length)
    table = [math.comb(length - hidden + k, k) / math.comb(length, k) for k in range(hidden + 1)]
    counts = [
        int(np.count_nonzero(span_lengths(source, row, length, config=config, widths=widths_of(length))))
        for row in range(rows)
    ]
    return np.array(table)[counts]


def compare_infilling(
    report: Report, module: ModuleType, rows: int, law: tuple[int, float, float], *, whole: bool
) -> None:
    """Compare the rows whose spans lie apart, whole or by what can be counted."""
    length, ratio, mean = law
    config = BART(mask_ratio=ratio, poisson_lambda=mean)
    name = "infilling of {} tokens at {:g}, mean {:g}".format(*law)
    their = theirs(module, places(length), rows, {"mask": ratio, "poisson_lambda": mean})
    our, hidden = ours(places(length), config, rows), budget(ratio, length)
    removed = np.array([length - len(kept_tokens(body)) for body in our])
    met = int(np.count_nonzero(removed == hidden))
    report.say(f"{name}: ours hides {hidden}", f"{met:,} of {rows:,}", holds=met == rows)
    apart = np.array([length - len(kept_tokens(body)) == hidden for body in their])
    chances = apart_chances(length, config, rows)
    report.mean(f"{name}: fairseq's spans lie apart", apart, expected=float(chances.mean()))
    kept = np.random.default_rng(9).random(rows) < chances
    found = [
        [body for body, is_kept in zip(bodies, flags.tolist(), strict=True) if is_kept]
        for bodies, flags in ((their, apart), (our, kept))
    ]
    if whole:
        a, b = numbered(*([body.tobytes() for body in bodies] for bodies in found))
        report.compare(f"{name}: whole rows", a, b)
        return
    counts = [np.array([counted(body, length) for body in bodies]) for bodies in found]
    fifths = [f"hidden in fifth {number + 1}" for number in range(FIFTHS)]
    for number, what in enumerate(["masks", "first gap", "last gap", *fifths]):
        report.compare(f"{name}: {what}", *(each[:, number] for each in counts))


def counted(body: NDArray[np.int64], length: int) -> list[int]:
    """Return the number of masks, the first and last gap, and the tokens that each fifth hides."""
    kept = kept_tokens(body)
    gaps = np.diff(kept, prepend=-1, append=length) - 1
    gaps = gaps[gaps > 0]
    fifths = [len(part) for part in np.array_split(np.arange(length), FIFTHS)]
    shown = np.bincount(np.searchsorted(np.cumsum(fifths), kept, side="right"), minlength=FIFTHS)
    masks = int(np.count_nonzero(body == MASK))
    return [masks, int(gaps[0]), int(gaps[-1]), *(np.array(fifths) - shown).tolist()]


def compare_poisson(report: Report, module: ModuleType) -> None:
    """Compare the lengths of spans before they are cut: the tables they are drawn from."""
    for mean in (1.0, 3.0, 3.5, 10.0):
        dataset = dataset_of(module, [], {"mask": 0.3, "poisson_lambda": mean})
        probabilities = dataset.mask_span_distribution.probs.numpy()
        bounds = [number / 2**64 for number in poisson_thresholds(mean)]
        table = np.diff(bounds, prepend=0.0)[: len(probabilities)]
        off = float(np.abs(table - probabilities[: len(table)]).max())
        report.say(
            f"Poisson's law of mean {mean:g}",
            f"{len(table)} numbers, off by {off:.1e} at most: its float32, cut at 1e-7",
            holds=off < 1e-6,  # noqa: PLR2004  # ten times what is cut off
        )


def compare_deletion(report: Report, module: ModuleType, rows: int) -> None:
    """Compare which tokens are deleted, and how many of rows of any length."""
    length, ratio = 10, 0.3
    options: Options = {"mask": ratio, "replace_length": 0, "mask_length": "subword"}
    found = [
        theirs(module, places(length), rows, options),
        ours(places(length), BART(mask_ratio=0.0, delete_ratio=ratio), rows),
    ]
    a, b = numbered(*([body.tobytes() for body in bodies] for bodies in found))
    ways = {len(np.unique(each)) for each in (a, b)}
    name = f"deletion of {length} tokens at {ratio:g}"
    report.say(f"{name}: ways, all there are", f"{ways}", holds=ways == {math.comb(length, 3)})
    report.compare(f"{name}: whole rows", a, b)
    for share in (0.15, 0.3, 0.35):
        lengths = range(1, 1_001)
        sizes = [
            len(theirs(module, places(length), 1, {**options, "mask": share})[0]) for length in lengths
        ]
        off = np.array([n - size - budget(share, n) for n, size in zip(lengths, sizes, strict=True)])
        report.say(
            f"tokens deleted of 1 to 1,000 at {share}",
            f"{np.count_nonzero(off)} lengths differ, by {np.abs(off).max()} at most: its float32",
            holds=bool(np.abs(off).max() <= 1),
        )


def compare_rotation(report: Report, module: ModuleType, rows: int) -> None:
    """Compare what comes first, and show that one rotation of fairseq's is none."""
    length, share = 12, 0.5
    found = [
        theirs(module, places(length), rows, {"rotate": share}),
        ours(places(length), BART(mask_ratio=0.0, rotate_probability=share), rows),
    ]
    name = f"rotation of {length} tokens"
    for who, bodies in zip(("fairseq", "ours"), found, strict=True):
        cyclic = sum(np.array_equal(np.roll(body, body[0] - FIRST), places(length)) for body in bodies)
        report.say(f"{name}: {who} is cyclic", f"{cyclic:,} of {rows:,}", holds=cyclic == rows)
    firsts = [np.array([body[0] for body in bodies]) - FIRST for bodies in found]
    report.compare(f"{name}: first token, if another", *(each[each > 0] for each in firsts))
    for who, first, still in zip(
        ("fault of fairseq's code: 2 of n + 1 rotations are none", "ours: 1 of n is none"),
        firsts,
        (2 / (length + 1), 1 / length),
        strict=True,
    ):
        report.mean(f"{name}: {who}", first == 0, expected=1 - share + share * still)


def compare_permutation(report: Report, module: ModuleType, rows: int) -> None:
    """Compare the orders of sentences."""
    for count in (3, 5):
        sentences = [[*range(FIRST + 8 * k, FIRST + 9 * k + 1), STOP] for k in range(count)]
        body = np.concatenate(sentences)
        found = [
            theirs(module, body, rows, {"permute_sentences": 1.0}),
            our_permuted(sentences, rows),
        ]
        name = f"permutation of {count} sentences"
        for who, bodies in zip(("fairseq", "ours"), found, strict=True):
            whole = sum(split(each) == sorted(sentences) for each in bodies)
            report.say(f"{name}: {who} keeps all", f"{whole:,} of {rows:,}", holds=whole == rows)
            same = np.array([np.array_equal(each, body) for each in bodies])
            report.mean(f"{name}: {who} unchanged", same, expected=1 / math.factorial(count))
            first = np.array([each[0] == body[0] for each in bodies])
            report.mean(f"{name}: {who}, first stays first", first, expected=1 / count)
        a, b = numbered(*([each.tobytes() for each in bodies] for bodies in found))
        report.compare(f"{name}: orders", a, b)


def split(body: NDArray[np.int64]) -> list[list[int]]:
    """Return the sentences of a body, sorted."""
    ends = np.flatnonzero(body == STOP) + 1
    return sorted(part.tolist() for part in np.split(body, ends[:-1]))


def our_permuted(sentences: list[list[int]], rows: int) -> Bodies:
    """Return rows of ours of these sentences in another order."""
    source = stored(np.concatenate(sentences), rows)
    ends = np.cumsum([len(sentence) for sentence in sentences])
    ends[-1] += 1
    length, none = int(ends[-1]), np.zeros(rows, np.int64)
    segments = {
        "row_ptr": source.segment_ptr,
        "start": none,
        "length": source.segment_length,
        "doc": np.arange(rows),
        "doc_offset": none,
    }
    shard = WholeShard(source.input_ids, segments, rows, sentences=ragged_of([ends.tolist()] * rows))
    columns = permute_and_add_noise(
        source,
        BART(mask_ratio=0.0, permute_probability=1.0),
        VOCABULARY,
        widths_of(length - 1),
        shard=shard,
        add_noise=add_noise,
    )
    return _bodies(columns["input_ids"], columns["input_length"])


def show_faults(report: Report, module: ModuleType) -> None:
    """Show what fairseq's code does, and that ours does not."""
    length, rows, config = 512, 2_000, BART()
    law: Options = {"mask": config.mask_ratio, "poisson_lambda": config.poisson_lambda}
    hidden = budget(config.mask_ratio, length)
    for who, bodies, wanted in (
        ("fault of fairseq's code: hides fewer", theirs(module, places(length), rows, law), False),
        ("ours hides as many as asked", ours(places(length), config, rows), True),
    ):
        removed = np.array([length - len(kept_tokens(body)) for body in bodies])
        report.say(
            who,
            f"{removed.mean():.1f}: {removed.min()} to {removed.max()} for {hidden}, n = {rows:,}",
            holds=bool((removed == hidden).all()) == wanted,
        )
    twice = [[row_of(places(64)) for _ in range(1_000)] for _ in range(2)]
    datasets = [dataset_of(module, documents, law, seed=1) for documents in twice]
    found = [[dataset[number]["source"] for number in range(1_000)] for dataset in datasets]
    other = sum(not torch.equal(*pair) for pair in zip(*found, strict=True))
    report.say(
        "fault of fairseq's code: the same seed, epoch and index give other rows",
        f"{other:,} of 1,000",
        holds=other > 0,
    )
    changed = sum(not torch.equal(document, row_of(places(64))) for document in twice[0])
    masked = sum(bool((datasets[0][number]["target"] == MASK).any()) for number in range(1_000))
    report.say(
        "fault of fairseq's code: stored documents are masked in place",
        f"{changed:,} of 1,000; the next epoch asks for a mask in {masked:,} targets",
        holds=changed > 0 and masked > 0,
    )
    source = stored(places(64), 1_000)
    source = replace(source, input_ids=source.input_ids.copy())
    before = source.input_ids.copy()
    first, second = (add_noise(source, config, VOCABULARY, widths_of(64)) for _ in range(2))
    same = all(np.array_equal(first[name], second[name]) for name in first)
    report.say("ours gives the same rows", "1,000 rows, every column", holds=same)
    untouched = np.array_equal(source.input_ids, before) and not (first["labels"] == MASK).any()
    report.say("ours leaves the stored rows alone", "1,000 rows", holds=untouched)


def main() -> int:
    """Compare, show, and give the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("source", type=Path, metavar="FOLDER", help="fairseq-0.12.2, unpacked")
    parser.add_argument(
        "--rows", type=int, default=100_000, metavar="N", help="of a law [default: 100,000]"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    module, report = fairseq(arguments.source), Report()
    compare_poisson(report, module)
    for whole, laws in ((True, SHORT), (False, LONG)):
        for law in laws:
            compare_infilling(report, module, arguments.rows, law, whole=whole)
    compare_deletion(report, module, arguments.rows)
    compare_rotation(report, module, arguments.rows)
    compare_permutation(report, module, arguments.rows)
    show_faults(report, module)
    return report.status()


if __name__ == "__main__":
    sys.exit(main())
