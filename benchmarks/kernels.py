"""Each kernel against its limit and its peers, on the bundled corpus, as a Markdown table.

    python benchmarks/kernels.py --json kernels.json

A *limit* does only that part of the work which nothing can leave out. Rates are medians of CPU seconds
(contests.py), of one core. Ids and rows come from a run over the bundled corpus, made in a temporary
folder (a minute) unless `--run` names the folder of a finished one.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from array_kernels import buckets, copying, loading, packing, similarities
from contest_material import EXAMPLES, Material
from contests import hold, markdown
from fim_kernels import infilling
from fim_text_kernels import infilling_text
from masking_kernels import masking
from span_kernels import spans
from text_kernels import encoding, minhash, reading, shingling

from pipeline.run_file.load import load_run_file
from pipeline.session.request import RunRequest
from pipeline.session.session import run_session

CONTESTS = {
    "read": reading,
    "shingle": shingling,
    "signature": minhash,
    "bands": buckets,
    "jaccard": similarities,
    "encode": encoding,
    "pack": packing,
    "copy": copying,
    "load": loading,
    "mask": masking,
    "spans": spans,
    "fim": infilling,
    "fim-text": infilling_text,
}


def make_run(output: Path) -> None:
    """Do a run over the bundled corpus up to its shards."""
    file = load_run_file(EXAMPLES / "quickstart.toml", ())
    run_session(RunRequest(file, EXAMPLES, output, workers=0, until="shard"), stream=sys.stderr)


def main() -> int:
    """Hold the contests and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--run", type=Path, metavar="DIR", help="a finished run over the bundled corpus")
    parser.add_argument("--only", choices=CONTESTS, nargs="+", default=list(CONTESTS))
    parser.add_argument("--repeats", type=int, default=9, metavar="N", help="turns of each [default: 9]")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures there too")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        run = arguments.run or Path(folder) / "run"
        if arguments.run is None:
            make_run(run)
        material = Material(run)
        for name in arguments.only:
            print(name, file=sys.stderr, flush=True)
            rows += hold(CONTESTS[name](material), repeats=arguments.repeats)
    print(markdown(rows))
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
