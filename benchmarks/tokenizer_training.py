"""Tokenizers of one sample by each algorithm: what they cost, and what languages pay under them.

    tokenizer_training.py CORPUS FOLDER --parallel DIR
    tokenizer_training.py CORPUS FOLDER --parallel DIR --sample-size 16MiB --only bpe byte_bpe-gpt2

CORPUS is a folder of *.jsonl.gz, with records of `text` and `lang`. DIR has LANG.txt, line N of each
being the same sentence, and is not trained on. One document in 32 is held out, up to 256 KiB of each
language. The others are sampled as a run samples them. Each algorithm trains in a process of its own. Of
that process, CPU seconds and memory are those of training alone: Pss_Anon, ten times a second, above
what it held before. Parity is the mean over languages of their tokens, divided by those of English. The
sample, the models and a line of JSON each are left in FOLDER; what is there is not made again.
"""

import argparse
import json
import os
import pickle
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import orjson
from process_memory import private_bytes

from pipeline.inputs.balanced_text import read_balance
from pipeline.inputs.languages import parallel_lines
from pipeline.steps.tokenizer.training import sampling_rates
from stages.cleaning.text import clean_text
from stages.identity import content_digest
from stages.reading.decompress import stream_chunks
from stages.reading.lines import split_lines
from stages.tokenizer.coverage import CharacterCounts, required_characters
from stages.tokenizer.existing import open_tokenizer
from stages.tokenizer.fairness import LanguageCounts, TextCounter
from stages.tokenizer.sampling import sample_pieces
from stages.tokenizer.special import special_ids
from stages.tokenizer.train import TRAINERS, TrainConfig, TrainingSample

NAMES = (
    *("bpe", "unigram", "byte_bpe-gpt2", "byte_bpe-llama3", "byte_bpe-qwen2", "byte_bpe-gpt4o"),
    *("parity_bpe-llama3", "parity_bpe-gpt4o"),
)
HELD_OUT = 256 << 10
LARGE = 1 << 20
SHOWN = ("de", "fi", "tr", "ru", "ar", "hi", "th", "zh", "ko", "ja")
Piece = tuple[str, str, int]


def documents(paths: Sequence[Path]) -> Iterator[tuple[str, str, bytes, bool]]:
    """Yield the language, text and digest of each document, and whether it is not trained on."""
    for path in paths:
        for line in split_lines(stream_chunks(path), max_bytes=1 << 26):
            record = orjson.loads(line.content)
            text = clean_text(record["text"])
            digest = content_digest(text)
            yield record["lang"], text, digest, digest[0] < 8  # noqa: PLR2004  # of 256


def draw(paths: Sequence[Path], config: TrainConfig, folder: Path) -> None:
    """Write the sample, and what is held out of languages of some size."""
    sizes, measured = Counter[str](), defaultdict[str, list[str]](list)
    taken, pieces = Counter[str](), list[Piece]()
    for language, text, _, held in documents(paths):
        sizes[language] += len(text.encode())
        if held and taken[language] < HELD_OUT:
            taken[language] += len(text.encode())
            measured[language].append(text)
    rates = sampling_rates(sizes, config)
    for language, text, digest, held in documents(paths):
        if not held:
            drawn = sample_pieces(text, digest, rate=rates[language], seed=0)
            pieces += [(language, piece, copies) for piece, copies in drawn]
    large = {name: texts for name, texts in sorted(measured.items()) if sizes[name] >= LARGE}
    (folder / "held-out.json").write_bytes(orjson.dumps(large))
    (folder / "sample.pickle").write_bytes(pickle.dumps(pieces))


def config_of(name: str, **settings: Any) -> TrainConfig:
    """Return the training of a name: byte_bpe-gpt2."""
    model, _, cutting = name.partition("-")
    chosen = {"pre_tokenizer": cutting} if cutting else {}
    return TrainConfig.model_validate({"model": model, **chosen, **settings})


def train(name: str, folder: Path, config: TrainConfig) -> dict[str, float]:
    """Write a tokenizer; return the CPU seconds and the memory in MiB that training took."""
    drawn: list[Piece] = pickle.loads((folder / "sample.pickle").read_bytes())  # noqa: S301  # our own
    characters, parallel = "", read_balance(config.parity) if config.is_balanced else {}
    if not config.is_byte_level:
        counts = CharacterCounts()
        for language, text, _ in drawn:
            counts.add(language, text)
        characters, _ = required_characters(
            counts.by_language(), coverage=config.character_coverage, most=config.most_characters()
        )
    before, peak, done = private_bytes(os.getpid()), [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.1):
            peak[0] = max(peak[0], private_bytes(os.getpid()))

    watching = threading.Thread(target=watch)
    watching.start()
    start, trainer = time.process_time(), TRAINERS[config.model]
    data = trainer.train(TrainingSample(lambda: iter(drawn), characters, parallel), config)
    seconds = time.process_time() - start
    done.set()
    watching.join()
    (folder / name).mkdir(exist_ok=True)
    (folder / name / trainer.kind).write_bytes(data)
    return {"cpu_seconds": round(seconds, 1), "mib": round((peak[0] - before) / 2**20)}


def counted(counter: TextCounter, texts: Sequence[str]) -> LanguageCounts:
    """Return what texts come to."""
    return sum(counter.count(texts), LanguageCounts())


def measure(name: str, folder: Path, config: TrainConfig, parallel: Path) -> dict[str, Any]:
    """Return what parallel text and text that was held out come to."""
    path = folder / name / TRAINERS[config.model].kind
    counter = TextCounter(open_tokenizer(path, special_ids()))
    lines = {one: counted(counter, texts) for one, texts in parallel_lines(parallel).items()}
    held = orjson.loads((folder / "held-out.json").read_bytes())
    unseen = {one: counted(counter, texts) for one, texts in held.items()}
    english = lines["en"].tokens
    parity = {one: round(counts.tokens / english, 3) for one, counts in lines.items() if one != "en"}
    parts = {one: counts.byte_fallback for one, counts in unseen.items()}
    return {
        "parallel_tokens": sum(counts.tokens for counts in lines.values()),
        "english": english,
        "mean_parity": round(mean(parity.values()), 3),
        "most_parity": max(parity.values()),
        "parity": parity,
        "held_out_tokens": sum(counts.tokens for counts in unseen.values()),
        "held_out_english": unseen["en"].tokens if "en" in unseen else None,
        "above_a_tenth_in_bytes": {one: share for one, share in parts.items() if share > 0.1},  # noqa: PLR2004
    }


def table(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of a table in Markdown."""
    heads = ("tokens", "English", "parity, mean", *SHOWN, "held-out tokens", "CPU s", "MiB")
    yield f"| trained by | {' | '.join(heads)} |"
    yield "|---|" + "---:|" * len(heads)
    for row in rows:
        numbers = (f"{row['parallel_tokens']:,}", f"{row['english']:,}", f"{row['mean_parity']:.2f}")
        parity = (f"{row['parity'][one]:.2f}" if one in row["parity"] else "" for one in SHOWN)
        costs = (f"{row['held_out_tokens']:,}", f"{row['cpu_seconds']:.0f}", f"{row['mib']:,}")
        yield f"| {row['name']} | {' | '.join((*numbers, *parity, *costs))} |"


def main() -> None:
    """Draw the sample, train and measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--parallel", type=Path, required=True)
    parser.add_argument("--sample-size", default="64MiB")
    parser.add_argument("--vocab-size", type=int, default=32_000)
    parser.add_argument("--only", nargs="+", default=NAMES)
    parser.add_argument("--train", help=argparse.SUPPRESS)
    given = parser.parse_args()
    settings = {"sample_size": given.sample_size, "vocab_size": given.vocab_size}
    if given.train:
        print(json.dumps(train(given.train, given.folder, config_of(given.train, **settings))))
        return
    given.folder.mkdir(parents=True, exist_ok=True)
    if not (given.folder / "sample.pickle").exists():
        draw(sorted(given.corpus.glob("*.jsonl.gz")), config_of("bpe", **settings), given.folder)
    rows = []
    for name in given.only:
        line = given.folder / f"{name}.json"
        if not line.exists():
            call = [sys.executable, *sys.argv, "--train", name]
            ended = subprocess.run(call, check=True, capture_output=True)  # noqa: S603  # this file
            cost = json.loads(ended.stdout)
            measured = measure(name, given.folder, config_of(name, **settings), given.parallel)
            line.write_text(json.dumps({"name": name, **cost, **measured}), encoding="utf-8")
        rows.append(json.loads(line.read_text(encoding="utf-8")))
    print("\n".join(table(rows)))


if __name__ == "__main__":
    main()
