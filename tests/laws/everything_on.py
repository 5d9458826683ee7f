"""One run with all of it switched on: a source of every format, every filter, every way to pack rows.

Its documents begin with a special id, so its datasets are of all kinds that allow this.
"""

import json
from pathlib import Path
from random import Random
from typing import Any

from pipeline.run_file.config import RunFile
from stages.cleaning.text import clean_text
from stages.reading.table import endings_of
from tests.conftest import bundled_lines
from tests.laws.combinations import (
    FILTERS,
    FORMS,
    LISTS,
    STRATEGIES,
    ChosenSource,
    Combination,
    fits_form,
    run_content,
)
from tests.laws.given_records import Fault, Given, Written
from tests.laws.shapes import SHAPES, fits_shape, sectioned
from tests.laws.written_records import FORMATS, write_source

RECORDS = 36
"""Of each source, beside its faults."""
FOLDERS = ("ingest", "dedup", "tokenizer", "split", "tokens", "sentences", "datasets")
"""Those whose bytes follow from the run file and the inputs alone."""


def _sources() -> tuple[ChosenSource, ...]:
    """Return a source of each format; shapes take turns, and so do compressions."""
    found = []
    for number, (name, form) in enumerate(FORMATS.items()):
        shapes = [shape for shape in SHAPES if fits_shape(name, shape)]
        endings = endings_of(form.reader)
        shape, ending = shapes[number % len(shapes)], endings[number % len(endings)]
        found.append(ChosenSource(name, ending, shape, (), cut=number % 2 == 0))
    return tuple(found)


def _datasets() -> tuple[tuple[str, str], ...]:
    """Return every kind whose documents may begin with an id, strategies in turn, and one with each."""
    forms = [form for form in FORMS if fits_form("trained", "llama", form)]
    turns = [(form, STRATEGIES[number % len(STRATEGIES)]) for number, form in enumerate(forms)]
    return (*turns, *(("prompts-packed", strategy) for strategy in STRATEGIES))


EVERYTHING = Combination(_sources(), tuple(FILTERS), "trained", "llama", _datasets(), "near", 5)


def everything_on() -> RunFile:
    """Return the run."""
    content: dict[str, Any] = run_content(EVERYTHING)
    content["ingest"]["unit_size"] = "16KiB"
    content["tokenizer"] = {"train": {"vocab_size": 1200, "sample_size": "1MiB"}}
    return RunFile.model_validate(content)


def write_everything(base: Path) -> list[Written]:
    """Write its sources, with duplicates within and across them; return what stands in them."""
    for name, content in LISTS.items():
        (base / name).write_text(content)
    lines = [*bundled_lines("text/books*", 20), *bundled_lines("*/*", 2)]
    texts = [clean_text(json.loads(line)["text"]) for line in lines]
    chance, written = Random(3), list[Written]()  # noqa: S311  # which texts, not what bytes
    for place, (name, source) in enumerate(EVERYTHING.named):
        records: list[Given | Fault] = list(FORMATS[source.form].faults)
        for number in range(RECORDS):
            text = chance.choice(texts)
            start = text.find("\n", chance.randrange(max(1, len(text) - 900))) + 1
            taken = text[start : start + chance.randint(200, 1300)]
            own = place * RECORDS + number
            extra = {0: f"\nWrite to {own}@example.org.", 1: "\nCall +1 212 555 0123."}.get(own % 9, "")
            records.append(Given(own, sectioned(f"{taken}{extra}", source.shape)))
        records += [record for record in records[-RECORDS::9] if isinstance(record, Given)]
        written += write_source(base / name, source.form, source.ending, records, cut=source.cut)
    return written
