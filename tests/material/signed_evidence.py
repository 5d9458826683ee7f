"""A small run with every table of evidence, and its values changed one at a time and signed.

The run has exact and near-duplicates, containment, values, cuts, evaluation sets and a validation split.
`cases_of` lists a value of each column of each kind of table outside of the datasets, and each number of
each kind of record; `looked_at` changes one, lets commits and digests vouch for it, and verifies.
"""

import json
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.run_file.config import RunFile
from pipeline.session.verifying import verify_session
from stages.config import canonical_json
from tests.material.commit_seals import vouched
from tests.material.file_damages import Undo, committed_files
from tests.material.words import WORDS

NAMED, STOPPED, SILENT = "named", "stopped", "silent"
_ROWS = ("datasets/", "tokens/")
"""Where rows and their tokens lie."""
UNIT = re.compile(r"[0-9a-f]{12}-\d+|\d{3,}|(?<=/)[0-9a-f]{16}(?=/)")
"""What differs between the files of one kind."""

_FIELDS = 20
"""An object with more keys names things of one kind."""


@dataclass(frozen=True)
class Case:
    """One value."""

    file: str
    """Its key; of a record, that of the commit."""
    where: str
    """Column, or path in a record."""
    outcome: str = ""
    said: str = ""


def settings() -> dict[str, Any]:
    """Return what the run file says."""
    return {
        "name": "signed",
        "sources": [
            {
                "name": "s",
                "paths": ["*.jsonl"],
                "id_column": "id",
                "language": {"column": "lang"},
            }
        ],
        "ingest": {"min_chars": 20, "max_bad_fraction": 0.5, "unit_size": "8KiB"},
        "dedup": {
            "keep": "longest",
            "minhash": {"threshold": 0.7, "num_perm": 64},
            "containment": {},
            "semantic": {"threshold": 0.985},
            "url": "url",
            "lines": {"min_documents": 3},
        },
        "decontamination": {"sets": [{"name": "held", "paths": ["held/*.jsonl"]}]},
        "tokenizer": {"train": {"vocab_size": 620, "control_symbols": ["<|turn|>"]}},
        "validation": {"fraction": 0.2},
        "packing": {"seq_len": 64, "shards": 1},
        "datasets": [{"name": "clm"}],
        "verify": {"learning": False},
    }


def run_file(**changes: Any) -> RunFile:
    """Return the run file; `changes` replace whole sections."""
    return RunFile.model_validate({**settings(), **changes})


def write_corpus(folder: Path, *, seed: int = 5, name: str = "") -> None:
    """Write documents of which some are the same, alike, contained, of one URL, or hold an item.

    Args:
        folder: of the files.
        seed: of the texts.
        name: begins the names of the files of documents, and their ids.
    """
    (folder / "held").mkdir(parents=True, exist_ok=True)
    chance = random.Random(seed)  # noqa: S311  # a corpus
    words = [f"{word}{n}" for word in WORDS for n in range(40)]

    def text(count: int) -> str:
        return " ".join(chance.choice(words) for _ in range(count))

    texts = [text(60) for _ in range(60)]
    items = [text(12) for _ in range(6)]
    texts += texts[:6]
    texts += [f"{one} and so on" for one in texts[6:14]]
    texts += [f"{one} {text(120)}" for one in texts[14:18]]
    texts += [f"{text(30)} {item} {text(30)}" for item in items[:4]]
    line = text(25)
    texts = [f"{one}\n{line}\n{text(8)}" if n % 3 else one for n, one in enumerate(texts)]
    records = [
        {
            "id": f"{name}d{n}",
            "text": one,
            "lang": ("en", "de")[n % 2],
            "url": f"http://a.example/{name}{n % 70}",
        }
        for n, one in enumerate(texts)
    ]
    records += [{"id": f"{name}short", "text": "x", "lang": "en", "url": ""}]
    for part in range(3):
        lines = "".join(json.dumps(record) + "\n" for record in records[part::3])
        (folder / f"{name}{part}.jsonl").write_text(lines + "{\n", encoding="utf-8")
    held = "".join(json.dumps({"text": item}) + "\n" for item in items)
    (folder / "held" / f"{name}items.jsonl").write_text(held, encoding="utf-8")


def cases_of(run: Path) -> list[Case]:
    """Return a case for each column of each kind of file, and for each number of each kind of record."""
    found: dict[tuple[str, str], Case] = {}
    for key in committed_files(run):
        if not key.startswith(_ROWS):
            for where, kind in _columns(run / key):
                found.setdefault((UNIT.sub("*", key), kind), Case(key, where))
    for path in sorted((run / "commits").glob("*/*.json")):
        if path.parent.name.startswith(("decode", "verify-")):  # made again by verify
            continue
        key = path.relative_to(run).as_posix()
        for where, kind in _numbers(json.loads(path.read_text())["record"]):
            found.setdefault((UNIT.sub("*", key), kind), Case(key, where))
    return list(found.values())


def _columns(path: Path) -> Iterator[tuple[str, str]]:
    if path.suffix == ".parquet" and pq.read_metadata(path).num_rows:
        yield from ((name, name) for name in pq.read_schema(path).names)
    elif path.suffix == ".npy" and np.load(path, mmap_mode="r").size:
        yield "values", "values"
    elif path.suffix == ".json":
        yield from _numbers(json.loads(path.read_text()))


def _numbers(value: Any, name: str = "", kind: str = "") -> Iterator[tuple[str, str]]:
    """Yield the paths of the numbers of a JSON value, each with its kind.

    Entries of a list are of one kind, and so are those of an object with many: languages, units.
    """
    if isinstance(value, dict):
        for key, inner in value.items():
            own = "*" if len(value) > _FIELDS else UNIT.sub("*", key)
            yield from _numbers(inner, f"{name}/{key}", f"{kind}/{own}")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _numbers(inner, f"{name}/{number}", f"{kind}/*")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, kind


def _changed(value: Any, where: str) -> Any:
    """Return a JSON value with one of its numbers changed."""
    _, key, *rest = where.split("/", 2)
    inner = f"/{rest[0]}" if rest else ""
    if isinstance(value, dict):
        return value | {key: _changed(value[key], inner) if inner else value[key] + 1}
    number = int(key)
    other = _changed(value[number], inner) if inner else value[number] + 1
    return [*value[:number], other, *value[number + 1 :]]


def change(run: Path, case: Case, undo: Undo) -> None:
    """Change the value of a case, and let the run vouch for what is there."""
    path = run / case.file
    if case.file.startswith("commits/"):
        before = json.loads(path.read_text())["record"]
        after = _changed(before, case.where)
        written = vouched(run, set(), record=lambda said: after if said == before else said)
        for vouching, data in written.items():
            undo.write(vouching, data)
        return
    undo.write(path, path.read_bytes())
    if path.suffix == ".json":
        path.write_bytes(canonical_json(_changed(json.loads(path.read_bytes()), case.where)))
    elif path.suffix == ".npy":
        array = np.load(path)
        flat = array.reshape(-1)
        place = len(flat) // 2
        others = flat[flat != flat[place]]
        flat[place] = others[0] if len(others) else flat[place] + 1
        np.save(path, array)
    else:
        table = pq.read_table(path)
        values = table.column(case.where).to_pylist()
        values[len(values) // 2] = _other(values, table.schema.field(case.where))
        column = table.schema.get_field_index(case.where)
        field = table.schema.field(case.where)
        table = table.set_column(column, field, pa.array(values, field.type))
        pq.write_table(table, path, compression="zstd")
    for vouching, data in vouched(run, {case.file}).items():
        undo.write(vouching, data)


def _other(values: list[Any], field: pa.Field) -> Any:
    """Return another value for the middle of a column: one of its own, or one that is made up."""
    own = values[len(values) // 2]
    others = [value for value in values if value not in (own, None)]
    if others:
        return others[0]
    if own is None:
        return pa.scalar(1).cast(field.type).as_py()
    made_up: dict[type, Any] = {
        bool: own is False,
        str: f"{own}x",
        bytes: own[::-1] if isinstance(own, bytes) else own,
    }
    return made_up[type(own)] if type(own) in made_up else own + 1


def looked_at(run: Path, case: Case) -> Case:
    """Return a case with what verify says of it."""
    text, failed = said_of(run, [case])
    outcome = SILENT
    if failed:
        outcome = NAMED if is_named(case, text) else STOPPED
    return replace(case, outcome=outcome, said=text[:300])


def said_of(run: Path, cases: Iterable[Case]) -> tuple[str, bool]:
    """Return what verify finds where the values of some cases are changed, and whether it fails."""
    undo = Undo(run)
    try:
        for case in cases:
            change(run, case, undo)
        return verified(run)
    finally:
        undo.undo()


def step_of(case: Case) -> str:
    """Return the step that a case is of, or the folder of its file."""
    return case.file.removeprefix("commits/").split("/")[0]


def is_named(case: Case, text: str) -> bool:
    """Say whether verify named the file of a case, its commit or its step."""
    record = case.file.startswith("commits/")
    names = (case.file, case.file if record else step_of(case), f"commits/{step_of(case)}")
    return any(name in text for name in names)


def verified(run: Path, *, workers: int = 0) -> tuple[str, bool]:
    """Return what verify finds, and whether it fails."""
    try:
        report = verify_session(run, workers=workers, address=None, stream=None)
    except Exception as error:  # noqa: BLE001  # whatever it is, it is looked at
        return f"{type(error).__name__}: {error}", True
    found = [
        *(report["audit"] or {"findings": ()})["findings"],
        *(f for v in report["verify"].values() for f in v["findings"]),
    ]
    return "\n".join(f"{f['file']}: {f['check']}: {f['message']}" for f in found), bool(found)
