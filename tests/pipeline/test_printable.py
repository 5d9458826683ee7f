"""What printing promises: a terminal obeys no file name, language, id or text, nor does a page."""

import io
import json
import time
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.engine.progress import Progress
from pipeline.report.fairness import first_languages
from pipeline.report.inspection import print_row
from pipeline.report.page import MAX_FINDINGS, MAX_LANGUAGES, render_page
from pipeline.report.plain import PlainConsole
from pipeline.report.report import Report
from pipeline.report.status import print_status
from pipeline.report.terminal import print_report
from pipeline.state.journal import Journal
from pipeline.steps.shard.make import ShardCounts
from pipeline.steps.verify.step import CheckedCounts
from pipeline.system.printable import printable, printable_json
from pipeline.tools.compare.page import COLUMNS, comparison_table
from pipeline.tools.export.terminal import print_export, print_quick
from tests.pipeline.reports import DOCUMENTS, EMPTY, STEP

EVIL = "x\x1b]0;owned\x07\x1b[2J\x9b31m\u202eabc\r\nverify clm: PASS[/red]:smile:<b>"
SHOWN = r"x\x1b]0;owned\x07\x1b[2J\x9b31m\u202eabc\r\nverify clm: PASS[/red]:smile:<b>"
ANYTHING = st.text(st.characters(), max_size=40)  # halves of characters too


def obeyed(text: str) -> list[str]:
    """Return the characters of a text that a terminal would obey; ends of lines are the printer's."""
    return [c for c in text if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") and c != "\n"] + [
        c for c in text if c in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    ]


@settings(deadline=None)
@given(ANYTHING)
@example(EVIL)
def test_printable_text_is_one_line_that_no_terminal_obeys(text: str) -> None:
    shown = printable(text)
    assert not obeyed(shown)
    assert "\n" not in shown
    assert printable(shown) == shown
    shown.encode()


def test_what_is_no_control_character_stays_as_it_is() -> None:
    text = "Grüße, 你好, नमस्ते, שלום, 👩‍👩‍👧 — “x” [1] {2} \\n"
    assert printable(text) == text
    assert printable(EVIL) == SHOWN


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | ANYTHING,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANYTHING, inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(JSON)
@example({EVIL: [EVIL]})
def test_json_for_machines_is_obeyed_by_no_terminal_and_reads_back(value: Any) -> None:
    text = printable_json(value)
    assert not obeyed(text)
    assert json.loads(text) == value
    text.encode()


def packed(evil: str) -> dict[str, Any]:
    """Return padding and cuts of a source with an evil name."""
    names = ("documents", "tokens", "padding", "cut_documents", "tokens_behind_cuts", "tokens_cut")
    return {"name": evil, **dict.fromkeys(names, 1)}


def report_of(evil: str, *, languages: int = 1) -> Any:
    """Return the JSON of a report in which every text of other people is evil."""
    counts = {"documents": 3, "bytes": 30, "tokens": 9}
    finding = {"file": evil, "check": evil, "message": evil}
    return EMPTY | {
        "name": evil,
        "output": evil,
        "passed": False,
        "documents": DOCUMENTS
        | {
            "read": 3,
            "dropped": {evil: 1},
            "named_drops": [f"{evil}: {evil}: {evil}"],
            "changed": {evil: 1},
            "removed": {evil: 1},
            "kept": 1,
        },
        "languages": [{"language": f"{evil}{n}", **counts} for n in range(languages)],
        "datasets": {evil: {evil: dict.fromkeys(ShardCounts.model_fields, 1) | {"fingerprint": evil}}},
        "packing": {evil: {evil: {"fingerprint": evil, "sources": [packed(evil)], "languages": []}}},
        "steps": [STEP | {"step": evil}],
        "warnings": [evil],
        "verify": {
            evil: {
                "verdict": "fail",
                "passed": False,
                "findings": [finding],
                "learning": None,
                "checked": dict.fromkeys(CheckedCounts.model_fields, 1),
                "fingerprints": {},
                "by_library": 0,
            }
        },
    }


def page_of(report: Any) -> str:
    """Return the page of a report."""
    return render_page(Report.model_validate(report))


def inspected(evil: str) -> dict[str, Any]:
    """Return a described row in which every text is evil."""
    document = dict.fromkeys(("own_id", "id", "source", "language", "path"), evil)
    place = {"start": 0, "length": 1, "doc_offset": 0, "tokens": 1, "position": 0}
    piece = evil.replace("\n", "")  # texts are shown with their lines
    token = {"id": 1, "piece": piece, "role": "text", "was": piece}
    return {
        "dataset": evil,
        "split": evil,
        "row": 0,
        "shard": evil,
        "row_in_shard": 0,
        "epoch": 0,
        "objective": {"kind": evil, "key": evil},
        "numbers": {},
        "documents": [{**document, **place}],
        "sequences": [{"name": evil, "padding": 0, "tokens": [token]}],
    }


def exported(evil: str) -> dict[str, Any]:
    """Return an export's report in which every text is evil."""
    return {
        "client": evil,
        "to": evil,
        "read": evil.replace("\n", ""),  # lines of code, of our own
        "already": False,
        "contents": [evil],
        "notes": [evil],
        "files": {evil: 1},
        "bytes": 1,
        "splits": {},
    }


def quick(evil: str) -> dict[str, Any]:
    """Return what `quick` reports, in which every text is evil."""
    run = report_of(evil)
    return {"run": run, "work": evil, "export": exported(evil)}


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize(
    ("show", "value"),
    [
        (print_report, report_of(EVIL)),
        (print_row, inspected(EVIL)),
        (print_export, exported(EVIL)),
        (print_quick, quick(EVIL)),
    ],
)
def test_no_command_prints_what_a_terminal_would_obey(
    show: Callable[..., None],
    value: dict[str, Any],
    as_json: bool,  # noqa: FBT001  # a parameter of the test
    capsys: pytest.CaptureFixture[str],
) -> None:
    show(value, as_json=as_json)
    printed = capsys.readouterr().out
    assert r"\x1b]0;owned" in printed.replace("\\u001b", r"\x1b")
    assert not obeyed(printed)
    assert not [line for line in printed.splitlines() if line.startswith("verify clm: PASS")]
    if as_json:
        assert json.loads(printed) == value
    else:
        assert "[/red]:smile:" in printed, "neither markup nor emoji"


def test_a_status_with_an_evil_error_and_evil_steps_is_printed_plainly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Journal(tmp_path, "a").status("stopped", error=EVIL, step=EVIL)
    print_status({tmp_path: ["ingest"]}, as_json=False)
    assert not obeyed(capsys.readouterr().out)


def test_notes_of_progress_are_printed_plainly() -> None:
    stream = io.StringIO()
    Progress(None, stream).note(EVIL)
    clock, said = stream.getvalue()[:20], stream.getvalue()[20:]
    time.strptime(clock.strip(), "%Y-%m-%d %H:%M:%S")
    assert said == SHOWN + "\n"


def test_a_comparison_is_printed_plainly(capsys: pytest.CaptureFixture[str]) -> None:
    record = {"name": EVIL, "mean": {key: {"mean": 1.0, "deviation": 0.0} for key in COLUMNS}}
    report: Any = {"datasets": [record]}
    PlainConsole().show(comparison_table(report).plain)
    printed = capsys.readouterr().out
    assert r"\x1b]0;owned" in printed
    assert not obeyed(printed)


def test_a_page_shows_other_people_s_texts_as_texts() -> None:
    page = page_of(report_of(EVIL))
    assert not obeyed(page)
    assert ":smile:<b>" not in page
    assert page.count(r"\x1b]0;owned\x07") >= 9
    assert page.count("&lt;b&gt;") >= 9


def test_a_page_of_many_languages_shows_the_first_and_the_sum_of_the_rest() -> None:
    report = report_of("l", languages=200_000)
    page = page_of(report)
    assert len(page) < 100_000
    assert page.count('<tr><th scope="row">l') >= MAX_LANGUAGES
    others = 200_000 - MAX_LANGUAGES
    assert f'<tr><th scope="row">{others:,} others</th><td class="n">{3 * others:,}</td>' in page
    assert "200,000</b>languages" in page
    assert f"The {MAX_LANGUAGES} with most tokens of 200,000" in page


@pytest.mark.parametrize("number", [0, 1, 99, 100, 101, 250])
def test_the_first_languages_and_the_others_are_all_of_them(number: int) -> None:
    rows = Report.model_validate(report_of("l", languages=number)).languages
    shown, others = first_languages(rows, MAX_LANGUAGES)
    assert tuple(shown) == rows[:MAX_LANGUAGES]
    assert (others is None) == (number <= MAX_LANGUAGES)
    summed = sum(row.tokens for row in [*shown, *([others] if others else [])])
    assert summed == sum(row.tokens for row in rows)


def test_a_page_of_many_findings_shows_the_first_and_counts_the_rest() -> None:
    report = report_of("x")
    verdict = report["verify"]["x"]
    verdict["findings"] = verdict["findings"] * 5_000
    page = page_of(report)
    assert len(page) < 100_000
    assert f"and {5_000 - MAX_FINDINGS:,} more findings, in <code>verify/x/verdict.json</code>" in page
