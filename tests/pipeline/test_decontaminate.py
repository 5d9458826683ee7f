"""What decontamination promises to a run: each document that goes is named with the words and the item.

The run has three evaluation sets: items that were planted in documents, a set that is only reported,
and a table of short ones. That a run without any has its old fingerprints: `test_fingerprints`.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.planning.plan import State
from pipeline.session.request import RunRequest
from pipeline.session.session import plan_session, run_session
from pipeline.session.verifying import verify_session
from pipeline.state.ledger import read_flows
from stages.errors import ConfigError
from tests.conftest import bundled_lines, digests, small_run

FACT = "The heaviest of all owls lives on one island and cannot fly since it has no enemies there at all"
QUESTION = (
    "Which metal melts first if a candle is held under five coins of different countries for an hour"
)
REPORTED = "A sentence that the second set holds and that one document quotes in the middle of its text"
PAIRED = (
    "Which of the seven painters in this town had a blue door and sold no picture in all of her life"
)
PHRASE = (
    "Permission is hereby granted to any person who obtains a copy of these words to use them freely"
)
JAPANESE = "月が昇る前に三人の漁師は小さな舟を岸に引き上げて火を起こした"


def documents() -> list[dict[str, Any]]:
    """Return the beginnings of documents of the bundled corpus, some of which hold items."""
    lines = [json.loads(line) for line in bundled_lines("text/*", 40)[:120]]
    texts = [f"{line['text'][:300]}" for line in lines]
    texts[3] += f"\n{QUESTION.upper().replace(' ', ', ')}!"
    texts[17] = f"{' '.join(FACT.split()[2:16])}\n{texts[17]}"
    texts[40] += f"\n{REPORTED}."
    texts[55] += f" 「{JAPANESE}」"
    for number in range(60, 75):
        texts[number] += f"\n{PHRASE}"
    return [
        {"id": str(n), "text": text, "lang": line["lang"]}
        for n, (line, text) in enumerate(zip(lines, texts, strict=True))
    ]


MIXED = {"name": "mixed", "paths": ["a.jsonl"], "id_column": "id", "language": {"column": "lang"}}
HOLDING = {"3", "17", "55"}
"""Documents that are dropped."""
SETS: list[dict[str, Any]] = [
    {
        "name": "quiz",
        "paths": ["eval/quiz*.jsonl"],
        "text_columns": ["question", "choices", "answer"],
        "id_column": "key",
    },
    {"name": "quoted", "paths": ["eval/quoted.txt"], "action": "report"},
    {"name": "table", "paths": ["eval/table.parquet"], "text_columns": ["item.text"]},
]


def write_inputs(folder: Path) -> None:
    """Write the corpus and the evaluation sets."""
    lines = "".join(json.dumps(one) + "\n" for one in documents())
    (folder / "a.jsonl").write_text(lines, encoding="utf-8")
    place = folder / "eval"
    place.mkdir(exist_ok=True)
    items = [
        {"key": "metal", "question": QUESTION, "choices": ["zinc", "iron", "tin"], "answer": "tin"},
        {"key": "owl", "question": "Which owl?", "choices": [], "answer": FACT},
        {"key": "licence", "question": PHRASE, "choices": ["yes", "no"], "answer": ""},
        {"key": "short", "question": "Why?", "choices": ["so"], "answer": "because"},
        {"key": "clear", "question": f"Nobody wrote {' '.join('abcdefghijkl')} before", "choices": None},
    ]
    (place / "quiz-1.jsonl").write_text("".join(json.dumps(one) + "\n" for one in items))
    (place / "quoted.txt").write_text(f"{REPORTED}\n\nanother short one\n")
    texts = {"text": [JAPANESE, "猫"]}
    pq.write_table(
        pa.table({"item": pa.array([{"text": t} for t in texts["text"]])}), place / "table.parquet"
    )


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus and evaluation sets."""
    folder = tmp_path_factory.mktemp("decontaminated")
    write_inputs(folder)
    return folder


def request(inputs: Path, output: Path, **options: Any) -> RunRequest:
    """Return a run over the corpus, to the verdict unless told otherwise."""
    workers, until = options.pop("workers", 0), options.pop("until", None)
    replace = options.pop("replace", False)
    changes: dict[str, Any] = {
        "sources": [MIXED],
        "ingest": {"unit_size": "6KiB", "min_chars": 20},
        "dedup": {"near": False},
        "tokenizer": {"train": {"vocab_size": 900, "sample_size": "1MiB"}},
        "verify": {"learning": False},
        "decontamination": {"sets": SETS},
    }
    file = small_run(**{**changes, **options})
    return RunRequest(file, inputs, output, workers, until=until, replace=replace)


@pytest.fixture(scope="module")
def made(inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A run with evaluation sets by a plain loop, and its report."""
    output = tmp_path_factory.mktemp("made") / "run"
    return output, run_session(request(inputs, output), stream=None)


def test_other_character_tables_find_other_words_and_redo_the_step(
    made: tuple[Path, Any], inputs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.steps.decontaminate.step.unicode_version", lambda: "99.0")
    steps = {one.step.name: one.state for one in plan_session(request(inputs, made[0]))}
    assert (steps["dedup"], steps["decontaminate"]) == (State.DONE, State.STALE)


def rows_of(run: Path, name: str = "contaminated") -> list[dict[str, Any]]:
    """Return a table of a run's evidence."""
    rows: list[dict[str, Any]] = pq.read_table(run / "decontaminate" / f"{name}.parquet").to_pylist()
    return rows


def test_documents_that_hold_items_go_and_the_evidence_says_which_words_of_which(
    made: tuple[Path, Any],
) -> None:
    run, report = made
    rows = {row["own_id"]: row for row in rows_of(run)}
    assert {own: (row["set"], row["item_id"], row["verdict"]) for own, row in rows.items()} == {
        "3": ("quiz", "metal", "dropped"),
        "17": ("quiz", "owl", "dropped"),
        "40": ("quoted", None, "reported"),
        "55": ("table", None, "dropped"),
    }
    assert rows["3"]["matched"] == QUESTION.upper().replace(" ", ", ")
    assert rows["17"]["matched"] == " ".join(FACT.split()[2:16])
    assert rows["55"]["matched"] == JAPANESE
    assert (rows["17"]["words"], rows["17"]["ngrams"], rows["17"]["documents"]) == (14, 2, 1)
    assert rows["17"]["share"] == 14 / (len(FACT.split()) + 2)
    texts = {
        one["own_id"]: one["text"].encode()
        for path in (run / "ingest").rglob("documents.parquet")
        for one in pq.read_table(path).to_pylist()
    }
    for own, row in rows.items():
        assert texts[own][row["begin"] : row["end"]].decode() == row["matched"]
    removed = report["documents"]["removed"]
    assert removed["contaminated"] == len(HOLDING)
    assert report["documents"]["kept"] == report["documents"]["read"] - sum(removed.values())
    kept = {
        own
        for path in (run / "datasets").rglob("documents.parquet")
        for own in pq.read_table(path).column("own_id").to_pylist()
    }
    assert kept == {str(number) for number in range(120)} - HOLDING


def test_each_item_has_a_verdict(made: tuple[Path, Any]) -> None:
    run, report = made
    verdicts = {(row["set"], row["item"]): row["verdict"] for row in rows_of(run, "items")}
    assert verdicts == {
        ("quiz", 0): "found",
        ("quiz", 1): "found",
        ("quiz", 2): "common",
        ("quiz", 3): "unused",
        ("quiz", 4): "clear",
        ("quoted", 0): "found",
        ("quoted", 1): "unused",
        ("table", 0): "found",
        ("table", 1): "unused",
    }
    quiz = report["documents"]["evaluation_sets"]["quiz"]
    assert {key: quiz[key] for key in ("items", "unused", "found", "common", "dropped", "reported")} == {
        "items": 5,
        "unused": 1,
        "found": 2,
        "common": 1,
        "dropped": 2,
        "reported": 0,
    }
    assert [sample["words"] for sample in quiz["samples"]] == [len(QUESTION.split()), 14]
    assert any("quoted: 1 of 2 items are not looked for" in line for line in report["warnings"])
    page = (run / "report" / "index.html").read_text()
    assert "Evaluation sets" in page
    assert "holds an item of an evaluation set" in page


def test_the_ledger_has_what_is_gone(made: tuple[Path, Any]) -> None:
    flows = read_flows(made[0], "decontaminate")
    gone = [flow.gone["contaminated"].documents for flow in flows.values()]
    assert sum(gone) == len(HOLDING)
    assert len(gone) > 3


@pytest.mark.usefixtures("ray_session")
@pytest.mark.campaign
def test_two_workers_and_other_units_give_the_same_bytes(
    inputs: Path, made: tuple[Path, Any], tmp_path: Path
) -> None:
    run_session(request(inputs, tmp_path / "run", workers=2, until="decontaminate"), stream=None)
    wanted = digests(made[0], "decontaminate")
    assert len(wanted) > 20
    assert digests(tmp_path / "run", "decontaminate") == wanted
    whole = {"unit_size": "64MiB", "min_chars": 20}
    run_session(request(inputs, tmp_path / "one", ingest=whole, until="decontaminate"), stream=None)
    for name in ("contaminated", "items"):
        place = f"decontaminate/{name}.parquet"
        assert (tmp_path / "one" / place).read_bytes() == (made[0] / place).read_bytes()


def test_another_evaluation_set_redoes_this_step_and_those_after_it(
    inputs: Path, made: tuple[Path, Any], tmp_path: Path
) -> None:
    sets = [{**SETS[0], "action": "report"}, *SETS[1:]]
    states = _states(request(inputs, made[0], decontamination={"sets": sets}))
    assert [name for name, state in states.items() if state is State.DONE] == ["ingest", "dedup"]
    assert all(state is State.DONE for state in _states(request(inputs, made[0])).values())
    shutil.copytree(inputs, tmp_path / "moved")
    assert all(state is State.DONE for state in _states(request(tmp_path / "moved", made[0])).values())
    with (tmp_path / "moved" / "eval" / "quiz-1.jsonl").open("a") as file:
        file.write(json.dumps({"question": "one more " * 8, "choices": None, "answer": None}) + "\n")
    changed = _states(request(tmp_path / "moved", made[0]))
    assert changed["decontaminate"] is State.STALE
    assert changed["dedup"] is State.DONE


def _states(wanted: RunRequest) -> dict[str, State]:
    """Return how far the steps are that make something of the inputs."""
    return {one.step.name: one.state for one in plan_session(wanted) if one.step.name != "scan"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"paths": ["eval/none*.jsonl"]},
            "decontamination.sets.quiz.paths: 'eval/none*.jsonl' matches no",
        ),
        (
            {"text_columns": ["question", "chioces"]},
            "decontamination.sets.quiz.text_columns: 'chioces' holds",
        ),
        (
            {"text_columns": ["qestion"]},
            "decontamination.sets.quiz: none of its 5 records gives an item",
        ),
        (
            {"text_columns": ["key"]},
            "decontamination.sets.quiz: none of its 5 items has a text of min_words",
        ),
        ({"digests": {"quiz-1.jsonl": "00"}}, "decontamination.sets.quiz.digests: the files have"),
        ({"paths": ["eval/empty.jsonl"]}, "decontamination.sets.quiz: its files hold no record"),
        ({"paths": ["eval/table.parquet"]}, "decontamination.sets.quiz.text_columns"),
    ],
)
def test_what_cannot_be_looked_for_is_refused_when_the_run_is_planned(
    change: dict[str, Any], message: str, inputs: Path, tmp_path: Path
) -> None:
    (inputs / "eval" / "empty.jsonl").write_text("\n")
    sets = [{**SETS[0], **change}]
    with pytest.raises(ConfigError) as caught:
        plan_session(request(inputs, tmp_path / "run", decontamination={"sets": sets}))
    assert message in str(caught.value)


def _findings(run: Path) -> list[dict[str, Any]]:
    report = verify_session(run, workers=0, address=None, stream=None)
    assert report["audit"] is not None
    return [dict(one) for one in report["audit"]["findings"] if one["check"] != "files"]


def _rewrite(run: Path, change: Any) -> None:
    place = run / "decontaminate" / "contaminated.parquet"
    rows = rows_of(run)
    change(rows)
    pq.write_table(pa.Table.from_pylist(rows, schema=pq.read_schema(place)), place)


def _show_other_words(rows: list[dict[str, Any]]) -> None:
    rows[0]["matched"] = "other words"


def _move(rows: list[dict[str, Any]]) -> None:
    rows[0]["begin"] += 3


def _name_another_item(rows: list[dict[str, Any]]) -> None:
    rows[1]["item"] = 4


def _drop_nothing(rows: list[dict[str, Any]]) -> None:
    rows[1]["verdict"] = "common"


def _lose(rows: list[dict[str, Any]]) -> None:
    del rows[-1]


@pytest.mark.campaign
@pytest.mark.parametrize("change", [_show_other_words, _move, _name_another_item, _drop_nothing, _lose])
def test_verify_names_the_evidence_whatever_is_wrong_with_it(
    change: Any, made: tuple[Path, Any], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(made[0], run)
    _rewrite(run, change)
    found = {one["file"] for one in _findings(run)}
    table, record = "decontaminate/contaminated.parquet", "commits/decontaminate/_step.json"
    assert table in found <= {table, record}


def test_verify_holds_the_evidence_to_the_texts_the_items_and_the_masks_and_these_to_the_ledger(
    made: tuple[Path, Any], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(made[0], run)
    _rewrite(run, _show_other_words)
    _rewrite(run, _name_another_item)
    place = next(p for p in sorted((run / "decontaminate/keep").rglob("*.npy")) if not np.load(p).all())
    mask = np.load(place)
    mask[:] = True
    np.save(place, mask)
    shown, named = rows_of(run)[:2]
    found = _findings(run)
    said = {one["message"] for one in found if one["file"] == "decontaminate/contaminated.parquet"}
    assert f"document {shown['id']} does not hold the words that it names" in said
    assert f"item 4 of quiz does not hold {named['matched'][:80]!r}" in said
    assert any("are gone by its keep mask" in one for one in said)
    assert (place.relative_to(run).as_posix(), "ledger") in {
        (one["file"], one["check"]) for one in found
    }


def test_what_is_cut_is_cut_from_what_is_left_and_verified_without_the_evaluation_files(
    inputs: Path, tmp_path: Path
) -> None:
    """The documents are those of the other run, and some of two sections, searched as one text."""
    folder, run, words = (
        Path(shutil.copytree(inputs, tmp_path / "in")),
        tmp_path / "run",
        PAIRED.split(),
    )
    others = [json.loads(line)["text"][:200] for line in bundled_lines("text/*", 40)[120:126]]
    pairs = [{"id": f"p{n}", "prompt": f"{one} ", "target": "x"} for n, one in enumerate(others)]
    pairs[5] |= {"prompt": f"{' '.join(words[:9])} ", "target": f"{' '.join(words[9:])} ."}
    (folder / "pairs.jsonl").write_text("".join(json.dumps(one) + "\n" for one in pairs))
    (folder / "eval" / "pairs.txt").write_text(PAIRED)
    sections = {"text_column": "prompt", "section_columns": ["target"], "id_column": "id"}
    sources = [MIXED, {"name": "p", "paths": ["pairs.jsonl"], **sections}]
    changes = {
        "dedup": {"near": False, "substrings": {"min_words": 15}},
        "decontamination": {"sets": [*SETS, {"name": "pairs", "paths": ["eval/pairs.txt"]}]},
    }
    report = run_session(request(folder, run, sources=sources, until="shard", **changes), stream=None)
    dropped = {row["own_id"] for row in rows_of(run) if row["verdict"] == "dropped"}
    assert dropped == {*HOLDING, "p5"}
    assert report["documents"]["cut_documents"] >= 14  # the licence stands in 15
    shutil.rmtree(folder / "eval")
    again = verify_session(run, workers=0, address=None, stream=None)
    assert again["passed"]
    assert again["audit"] is not None
    assert again["audit"]["findings"] == []
