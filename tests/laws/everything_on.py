"""Runs with all of it switched on: a source of every format, every filter, every way to pack rows.

There are two, since a run with dialogues cannot tell prompts from targets, and since special ids stand
around rows or around documents. Both have datasets of all kinds that allow a special id in front.
"""

import json
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from random import Random
from typing import Any

from pipeline.run_file.config import RunFile
from stages.cleaning.text import clean_text
from stages.reading.table import endings_of
from tests.campaign import FULL
from tests.conftest import bundled_lines
from tests.laws.combinations import (
    FILTERS,
    FORMS,
    KEEPS,
    LISTS,
    STRATEGIES,
    ChosenSource,
    Combination,
    fits_form,
    fits_keep,
    fits_shapes,
)
from tests.laws.given_records import Fault, Given, Written
from tests.laws.mixed_by_hand import MIXES
from tests.laws.run_contents import run_content
from tests.laws.shapes import DIALOGUES, SHAPES, faults_of, fits_shape, record_of
from tests.laws.written_records import FORMATS, write_source

RECORDS = 36 if FULL else 20
"""Of each source, beside its faults; those of some formats are files, and so units, of their own."""
FOLDERS = (
    "ingest",
    "dedup",
    "decontaminate",
    "cut",
    "tokenizer",
    "split",
    "tokens",
    "sentences",
    "datasets",
)
"""Those whose bytes follow from the run file and the inputs alone."""
SIGNATURE = (
    "He that reads these pages in the evening, by a lamp and with a cup of tea beside him, will find"
    " that they were written in the same manner, and that nothing in them was meant to trouble his"
    " sleep."
)
"""Stands in many texts of sources of one section, from which it is cut: as a line, or at its end."""
QUESTIONS = "questions.txt"
"""An evaluation set beside the sources."""


def _sources(shapes: Sequence[str]) -> tuple[ChosenSource, ...]:
    """Return a source of each format; of all else what it can have takes turns."""
    found: list[ChosenSource] = []
    turns: Counter[tuple[str, ...]] = Counter()
    for number, (name, form) in enumerate(FORMATS.items()):
        fitting = tuple(shape for shape in shapes if fits_shape(name, shape))
        shape, endings = fitting[turns[fitting] % len(fitting)], endings_of(form.reader)
        turns[fitting] += 1
        keeps = [keep for keep in KEEPS if fits_keep(name, keep)]
        learns = SHAPES[shape].learns
        found.append(
            ChosenSource(
                name,
                endings[number % len(endings)],
                shape,
                (),
                cut=number % 2 == 0,
                keep=keeps[-1 - number % len(keeps)],
                learn=learns[number % len(learns)],
            )
        )
    return tuple(found)


def _datasets(framing: str, shapes: Collection[str], packed: str) -> tuple[tuple[str, str], ...]:
    """Return every kind that fits, strategies in turn, and one kind with each of these."""
    forms = [form for form in FORMS if fits_form("trained", framing, form) and fits_shapes(form, shapes)]
    turns = [(form, STRATEGIES[number % len(STRATEGIES)]) for number, form in enumerate(forms)]
    turns = turns if FULL else turns[::9]  # `test_every_objective` has every kind
    each = tuple((packed, strategy) for strategy in STRATEGIES)
    return (*(turn for turn in turns if FULL or turn not in each), *each)


def _everything(framing: str, shapes: Sequence[str], packed: str) -> Combination:
    datasets = _datasets(framing, shapes, packed)
    mixes = tuple(list(MIXES)[(number + 5) % len(MIXES)] for number in range(len(datasets)))
    return Combination(
        _sources(shapes), tuple(FILTERS), "trained", framing, datasets, "near", 5, mixes=mixes
    )


_TEXTS = tuple(shape for shape in SHAPES if shape not in DIALOGUES)
EVERYTHING = {
    "dialogues": _everything("roberta of rows", (*sorted(DIALOGUES), *_TEXTS), "targets"),
    "prompts": _everything("llama", _TEXTS, "prompts-packed"),
}


def everything_on(name: str) -> RunFile:
    """Return one of the runs."""
    content: dict[str, Any] = run_content(EVERYTHING[name])
    content["ingest"]["unit_size"] = "32KiB" if FULL else "64KiB"  # of most files two, or one
    sets = [{"name": name, "paths": [QUESTIONS], "action": name} for name in ("drop", "report")]
    content["decontamination"] = {"sets": sets}
    content["dedup"] = {
        "minhash": {"normalize": ["case", "quotes"]},
        "containment": {"threshold": 0.95},
        "semantic": {"encoder": "tests.laws.letter_encoder:encode", "threshold": 0.99},
        "keep": "longest",
        "source_order": [content["sources"][2]["name"]],
        "lines": {"min_documents": 2},
        "paragraphs": {"min_documents": 4},
        "substrings": {"min_bytes": 120} if name == "dialogues" else {"min_words": 25},
    }
    content["sources"][1]["dedup"] = "within"
    content["tokenizer"] = {"train": {"vocab_size": 1200, "sample_size": "1MiB"}}
    return RunFile.model_validate(content)


def write_everything(name: str, base: Path) -> list[Written]:
    """Write its sources, with duplicates within and across them; return what stands in them."""
    for file, content in LISTS.items():
        (base / file).write_text(content)
    lines = [*bundled_lines("text/books*", 20), *bundled_lines("*/*", 2)]
    texts = [clean_text(json.loads(line)["text"]) for line in lines]
    chance, written = Random(3), list[Written]()  # noqa: S311  # which texts, not what bytes
    questions: list[str] = []
    for place, (source_name, source) in enumerate(EVERYTHING[name].named):
        records: list[Given | Fault] = list(faults_of(source.form, source.shape))
        few = FORMATS[source.form].single and not FULL  # each is a file, and so a unit
        for number in range(RECORDS // 3 if few else RECORDS):
            text = chance.choice(texts)
            start = text.find("\n", chance.randrange(max(1, len(text) - 900))) + 1
            taken = text[start : start + chance.randint(200, 1300)]
            own = place * RECORDS + number
            extra = {0: f"\nWrite to {own}@example.org.", 1: "\nCall +1 212 555 0123."}.get(own % 9, "")
            signed = ("\n", " ", None)[number % 3] if source.shape == "text" else None
            signature = "" if signed is None else f"{signed}{SIGNATURE}"
            text = f"{taken[:850] if signature else taken}{extra}{signature}"
            questions += [" ".join(text.split()[3:30])] if own % 20 == 0 else []
            records.append(record_of(own, text, own, source.shape, source.learned))
        records += [record for record in records[-RECORDS::9] if isinstance(record, Given)]
        written += write_source(base / source_name, source.form, source.ending, records, cut=source.cut)
    (base / QUESTIONS).write_text("\n\n".join(questions), encoding="utf-8")
    return written
