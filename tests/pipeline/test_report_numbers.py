"""The report of a run with every way of losing documents: its words, numbers and pictures say which."""

import html
import json
import random
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from pipeline.report.card import render_card
from pipeline.report.fate import find_document
from pipeline.report.flow import flow_stages
from pipeline.report.page import render_page
from pipeline.report.report import Report
from pipeline.run_file.config import RunFile
from pipeline.session.request import RunRequest
from pipeline.session.session import run_session
from pipeline.session.verifying import verify_session
from stages.errors import ConfigError

WORDS = ["tide", "shore", "salt", "wind", "net", "boat", "harbour", "lamp", "gull", "rope", "sand"]


def text(number: int) -> str:
    """A text of its own."""
    chance = random.Random(number)  # noqa: S311  # a text, no secret
    return " ".join(f"{chance.choice(WORDS)}{chance.randrange(50)}" for _ in range(150))


def records() -> dict[str, list[dict[str, Any]]]:
    """Documents of two sources: copies, parts, near-duplicates, and some of one URL or key."""
    first = [
        {"text": text(n), "url": f"https://x.org/{n % 55}", "k": n % 57, "lang": "go"} for n in range(60)
    ]
    texts = [text(n) if n % 3 else text(n)[: len(text(n)) * 2 // 3] for n in range(30)]
    texts += [f"{text(n)} more" for n in range(30, 40)]
    second = [
        {"text": one, "url": f"https://y.org/{n}", "k": 99 + n, "lang": "en"}
        for n, one in enumerate(texts)
    ]
    second += [
        {"text": " ", "url": "https://z.org/", "k": -1},
        {"text": text(999), "url": "https://z.org/", "k": -2, "lang": "en"},
    ]
    rows = {"datasets": first, "work": second}
    return {
        name: [row | {"id": f"{name}{n}"} for n, row in enumerate(own)] for name, own in rows.items()
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunFile, Any]:
    """A run whose sources have the names of folders of a run, and whose learning is not checked."""
    folder = tmp_path_factory.mktemp("numbers")
    for name, rows in records().items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    file = RunFile.model_validate(
        {
            "sources": [
                {
                    "name": name,
                    "paths": [f"{name}.jsonl"],
                    "id_column": "id",
                    "language": {"column": "lang"},
                }
                for name in records()
            ],
            "dedup": {"url": "url", "keys": ["k"], "containment": {}},
            "tokenizer": {"train": {"vocab_size": 600}},
            "packing": {"seq_len": 128, "shards": 1},
            "datasets": [{"name": "clm"}],
            "verify": {"learning": False},
        }
    )
    report = run_session(RunRequest(file, folder, folder / "run", 0), stream=None)
    return folder / "run", file, report


def test_every_reason_is_said_in_words(made: tuple[Path, RunFile, Any]) -> None:
    run, file, report = made
    said = {why for stage in flow_stages(Report.model_validate(report)) for why, _, _ in stage.gone}
    assert {
        "with no character but white space",
        "of the same URL as a kept document",
        "of the same k as a kept document",
        "contained in a kept document",
    } <= said
    page, card = (
        (run / "report" / "index.html").read_text(),
        render_card(Report.model_validate(report), file),
    )
    for line in (*said, page, card):
        assert not re.search("filter (url|key:k|empty)", line)


def test_only_near_duplicates_are_drawn_by_the_similarity_of_shingles(
    made: tuple[Path, RunFile, Any],
) -> None:
    run, _, report = made
    removed, found = report["documents"]["removed"], report["similarity"]
    assert sum(found["counts"]) == removed["minhash"] > 0
    assert found["identical"] == removed["exact"] > 0
    assert found["others"] == removed["containment"] + removed["url"] + removed["key:k"]
    assert min(removed["containment"], removed["url"], removed["key:k"]) > 0
    said = f"{found['others']} that went for another reason are not in it"
    assert said in (run / "report" / "index.html").read_text()


def test_programming_languages_are_no_natural_languages_on_the_card(
    made: tuple[Path, RunFile, Any],
) -> None:
    run, _, report = made
    assert {row["language"] for row in report["languages"]} == {"en", "go"}
    card = (run / "report" / "card.md").read_text()
    assert 'language:\n- "en"\n- "code"\n' in card
    assert "A small model was trained" not in card, "no learning was asked for"


def test_sources_may_have_the_names_of_folders_of_a_run(made: tuple[Path, RunFile, Any]) -> None:
    run, _, _ = made
    for name in ("datasets3", "work31", "work1"):
        found = find_document(run, name)
        assert [one["what"] for one in found] in (["read", "in rows"], ["read", "removed"])
    assert [one["what"] for one in find_document(run, "work.jsonl:41")] == ["dropped"]
    with pytest.raises(ConfigError, match="nothing here knows it"):
        find_document(run, f"work.jsonl:{10**30}")


def test_the_page_claims_no_more_than_was_checked(made: tuple[Path, RunFile, Any]) -> None:
    run, _, report = made
    kept = report["documents"]["kept"]
    whole = f"Every one of {kept} documents is in the rows, once and whole, and decodes to its text byte"
    assert (run / "report" / "index.html").read_text().count(whole) == 2
    other = json.loads(json.dumps(report))
    other["verify"]["clm"]["returned"] = {"text": kept - 2, "normalised": 2}
    other["datasets"]["clm"]["train"]["tokens_cut"] = 7
    page = render_page(Report.model_validate(other))
    assert "byte for byte" not in page
    assert (
        page.count("whole but for 7 tokens, which packing left in no row. From their ids come back") == 2
    )
    assert page.count(f"{kept - 2} as their texts, 2 as their normalised texts.") == 2


def test_commands_on_the_page_can_be_typed(made: tuple[Path, RunFile, Any]) -> None:
    _, _, report = made
    other = Report.model_validate(report | {"output": "it's my run"})
    page = html.unescape(render_page(other))
    commands = re.findall("<code>shardmill inspect ([^<]+)</code>", page)
    assert len(commands) == 2
    assert {shlex.split(command)[0] for command in commands} == {"it's my run"}


@pytest.mark.parametrize("name", ["removed", "clusters"])
@pytest.mark.parametrize("data", [b"", b"PAR1 is no table" * 9])
def test_verify_names_a_damaged_table_of_duplicates(
    made: tuple[Path, RunFile, Any], tmp_path: Path, name: str, data: bytes
) -> None:
    shutil.copytree(made[0], tmp_path / "run")
    (tmp_path / "run" / "dedup" / f"{name}.parquet").write_bytes(data)
    report = verify_session(tmp_path / "run", workers=0, address=None, stream=None)
    assert report["audit"] is not None
    assert f"dedup/{name}.parquet" in {one["file"] for one in report["audit"]["findings"]}
    assert "similarity" not in report
