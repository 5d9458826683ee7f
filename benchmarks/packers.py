"""Packing beside trl's packer: lengths of a real corpus to rows, their padding, CPU seconds and memory.

    packers.py --corpus 'CORPUS/*.jsonl.gz' --cache DIR --documents 1000000 10000000

The lengths of documents are drawn from those of the corpus's texts, in characters, divided by
`--characters` a token; the EOS is one more. Each packer runs in a process of its own, in turns. Ours
lays rows out; "rows written" copies the tokens into them too, two bytes each. trl's packer moves tokens
of one byte. Peak memory is what is added to lengths and tokens.
"""

import argparse
import glob
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from peer_environments import TRL, make_peer_environment

from stages.packing.layout import Layout, Strategy
from stages.packing.strategies import PACKINGS
from stages.reading.decompress import stream_chunks
from stages.reading.lines import split_lines
from stages.store.ranges import copy_ranges

WRITTEN = "best_fit, rows written"
OURS = (Strategy.BEST_FIT.value, WRITTEN, Strategy.CONCAT.value, Strategy.DOCUMENT.value)
PEER = "trl, bfd split"
_PEER_PROGRAM = Path(__file__).parent / "peers" / "trl_pack.py"
_LONGEST_LINE = 1 << 26
_MOST_WITH_TOKENS = 1_000_000
"""Documents beyond which what holds their tokens is left out: 10,000,000 have 11 GB of them here."""

Facts = dict[str, float]


def text_lengths(paths: Sequence[Path]) -> NDArray[np.int64]:
    """Return the characters of each text of some files of JSON lines."""
    return np.array(
        [
            len(json.loads(line.data)["text"])
            for path in paths
            for line in split_lines(stream_chunks(path), max_bytes=_LONGEST_LINE)
            if line.data
        ],
        np.int64,
    )


def drawn_lengths(characters: NDArray[np.int64], count: int, share: float) -> NDArray[np.int64]:
    """Return the tokens of so many documents, their EOS included."""
    chosen = np.random.default_rng(1).choice(characters, count)
    return (chosen / share).astype(np.int64) + 1


def pack_ours(name: str, path: Path, seq_len: int) -> Facts:
    """Lay out rows in this process; say what it took."""
    lengths = np.load(path)
    pack = PACKINGS[Strategy(name.partition(",")[0])].pack
    pack(lengths[:100], row_length=seq_len)  # compiled code is loaded
    tokens = np.zeros(int(lengths.sum()) if name == WRITTEN else 0, np.uint16)
    if name == WRITTEN:
        _write(pack(lengths[:100], row_length=seq_len), lengths[:100], tokens)
    before, cpu = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    layout = pack(lengths, row_length=seq_len)
    if name == WRITTEN:
        _write(layout, lengths, tokens)
    cpu = time.process_time() - cpu
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    pieces = np.bincount(layout.doc, minlength=len(lengths))
    cut = int(np.count_nonzero((pieces > 1) & (lengths <= seq_len)))
    return {"cpu_seconds": cpu, "peak_bytes": peak, "rows": layout.num_rows, "cut": cut}


def _write(layout: Layout, lengths: NDArray[np.int64], tokens: NDArray[np.uint16]) -> None:
    rows = np.zeros(layout.num_rows * layout.row_length, np.uint16)
    begins = (np.cumsum(lengths) - lengths)[layout.doc] + layout.doc_offset
    places = layout.segment_rows() * layout.row_length + layout.start
    copy_ranges(tokens, rows, begins, places, layout.length.astype(np.int64))


def take_turns(ways: dict[str, list[str]], turns: int) -> dict[str, Facts]:
    """Return the medians of what each way took, in processes of their own."""
    found: dict[str, list[Facts]] = {name: [] for name in ways}
    for _ in range(turns):
        for name, command in ways.items():
            done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
            found[name].append(json.loads(done.stdout.splitlines()[-1]))
    return {
        name: {key: statistics.median(one[key] for one in all_) for key in all_[0]}
        for name, all_ in found.items()
    }


def table(lengths: NDArray[np.int64], seq_len: int, medians: dict[str, Facts]) -> list[str]:
    """Return the rows of the table."""
    tokens = int(lengths.sum())
    lines = []
    for name, facts in medians.items():
        padding = 1 - tokens / (facts["rows"] * seq_len)
        cut = f"{facts['cut']:,.0f}" if "cut" in facts else "0"
        peak = facts["peak_bytes"] / 1e6
        rows = f"{facts['rows']:,.0f}"
        spent = f"{facts['cpu_seconds']:.3f}"
        cells = [f"{len(lengths):,}", name, spent, f"{peak:,.0f}", rows, f"{padding:.3%}", cut]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def parse_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--corpus", nargs="+", metavar="GLOB", help="files of JSON lines")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="all that is made")
    parser.add_argument("--documents", type=int, nargs="+", default=[1_000_000], metavar="N")
    parser.add_argument("--seq-len", type=int, default=2048, help="[default: 2048]")
    parser.add_argument("--characters", type=float, default=3.2, help="of a token [default: 3.2]")
    parser.add_argument("--turns", type=int, default=3, help="[default: 3]")
    parser.add_argument("--without-peer", action="store_true", help="ours alone")
    parser.add_argument("--pack", nargs=2, metavar=("NAME", "LENGTHS"), help=argparse.SUPPRESS)
    return parser.parse_args(words)


def main() -> int:
    """Draw lengths, pack them in turns, print the table."""
    arguments = parse_arguments()
    seq_len = arguments.seq_len
    if arguments.pack:
        print(json.dumps(pack_ours(arguments.pack[0], Path(arguments.pack[1]), seq_len)))
        return 0
    paths = sorted(Path(path) for one in arguments.corpus for path in glob.glob(one))  # noqa: PTH207
    cache = arguments.cache.resolve()
    cache.mkdir(parents=True, exist_ok=True)
    characters = text_lengths(paths)
    python = None if arguments.without_peer else make_peer_environment(cache / "environments", TRL)
    print(f"{len(characters):,} texts of {int(characters.sum()):,} characters; rows of {seq_len:,}\n")
    print("| documents | packer | CPU s | peak, MB | rows | padding | cut though they fit |")
    print("|---:|---|---:|---:|---:|---:|---:|")
    for count in arguments.documents:
        lengths = drawn_lengths(characters, count, arguments.characters)
        path = cache / f"lengths-{count}.npy"
        np.save(path, lengths)
        ours = [sys.executable, __file__, "--seq-len", str(seq_len), "--pack"]
        few = count <= _MOST_WITH_TOKENS
        ways = {name: [*ours, name, str(path)] for name in OURS if few or name != WRITTEN}
        if python is not None and few:
            ways[PEER] = [str(python), str(_PEER_PROGRAM), str(path), str(seq_len)]
        for line in table(lengths, seq_len, take_turns(ways, arguments.turns)):
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
