"""What people read of a verdict: every gate with its bound, curves, and what is only reported."""

import re
from pathlib import Path
from typing import Any

import pytest

from pipeline.cli import _require_pass
from pipeline.report.page import render_page
from pipeline.report.pictures import loss_curves
from pipeline.report.plot import HEIGHT, WIDTH
from pipeline.report.report import Report
from pipeline.report.terminal import print_report
from stages.errors import VerificationError
from tests.pipeline.reports import DOCUMENTS, EMPTY

GATE = {"name": "gain", "value": 0.5, "bound": 0.1, "passed": True, "relation": "at least"}
LEARNED: dict[str, Any] = {
    "passed": True,
    "device": "cpu",
    "gated": True,
    "loss": 5.5,
    "unigram_entropy": 6.0,
    "control_loss": 6.01,
    "apart_loss": 1.25,
    "curve": [[0, 6.1], [10, 5.8], [20, 5.4]],
    "control_curve": [[0, 6.1], [10, None], [20, 6.0]],
    "isolation": {"ends": 7, "max_change": 0.0, "max_change_without": 0.7},
    "resume": {
        "steps": 12,
        "max_difference": 0.0,
        "bound": 0.0,
        "supply": {"wait_share": 0.0123, "tokens_per_second": 4567.0, "mfu": 0.25},
    },
    "pairs": {"loss": 0.6, "unigram_entropy": 0.69},
    "gates": [
        GATE,
        {
            **GATE,
            "name": "isolation",
            "value": 1.5,
            "bound": 0.0,
            "passed": False,
            "relation": "at most",
        },
        {**GATE, "name": "leak_floor", "value": None, "passed": False},
    ],
}
CONTRAST = {
    "passed": True,
    "device": "cpu",
    "gated": False,
    "gates": [],
    "contrast": {"chance": 3.47, "first_loss": 3.0, "loss": 0.5, "curve": [[0, 3.0], [1, 0.6]]},
}


def report_of(learning: dict[str, Any] | None) -> Any:
    """The JSON of a report that holds one verdict and nothing else to speak of."""
    checked = {"rows": 3, "documents": 2, "tokens": 40, "padding": 1}
    verdict = {
        "verdict": "pass",
        "passed": True,
        "findings": [],
        "learning": learning,
        "checked": checked,
        "by_library": 2,
        "fingerprints": {},
    }
    return EMPTY | {
        "passed": True,
        "documents": DOCUMENTS | {"read": 2},
        "verify": {"dataset": verdict},
    }


def rendered(report: Any) -> str:
    """The page of a report."""
    return render_page(Report.model_validate(report))


def page_of(learning: dict[str, Any] | None) -> str:
    """The page's text, its tags left out."""
    return re.sub(r"<[^>]+>", " ", rendered(report_of(learning)))


def test_the_page_names_the_files_that_list_every_drop() -> None:
    report = report_of(None)
    sample = {"reason": "r", "id": "0", "place": "a", "detail": "d", "excerpt": "e"}
    report["documents"]["samples"] = [sample]
    assert "<code>ingest/*/*/drops.parquet</code>" in rendered(report)


def test_the_page_shows_every_gate_with_its_bound_and_which_side_is_right() -> None:
    page = " ".join(page_of(LEARNED).split())
    assert "PASS The model learned 0.5, must be at least 0.1 gain" in page
    assert "FAIL No document sees its neighbour 1.5, must be at most 0 isolation" in page
    assert "FAIL The inputs do not show the answers not finite, must be at least 0.1 leak_floor" in page
    assert "in each of 7 pairs of neighbours in a row" in page
    assert "1.23% of the time went to the loader, 4,567 tokens a second on cpu, MFU 0.250" in page
    assert "told at 0.6 nats" in page


def test_curves_are_drawn_inside_their_box_and_skip_what_is_not_finite() -> None:
    drawing = loss_curves(
        {"labels": LEARNED["curve"], "control": LEARNED["control_curve"]}, 6.0, "level"
    )
    lines = re.findall(r'<path class="line c\d+" d="M([^"hH]+)"', drawing)
    points = [tuple(map(float, point.split(","))) for line in lines for point in line.split("L")]
    assert [line.count("L") + 1 for line in lines] == [3, 2, 2]
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points)
    falling = lines[0].split("L")
    assert float(falling[0].split(",")[1]) < float(falling[-1].split(",")[1]), "0 is at the top"
    assert rendered(report_of(LEARNED)).count("Loss by step</text>") == 1


def test_what_is_reported_alone_says_so() -> None:
    assert "held to no gate" in page_of(CONTRAST)
    assert rendered(report_of(CONTRAST)).count("Loss by step</text>") == 1
    reported = rendered(report_of({**LEARNED, "gated": False, "pairs": None}))
    assert reported.count("held to no gate") == 2
    assert "it learned from them" not in reported
    assert "it learned from them" in rendered(report_of(LEARNED))
    said = (
        "Learning could not be judged, though the exact checks passed and nothing is known to be wrong"
    )
    assert f"{said}: too few" in page_of(
        {"passed": True, "gated": True, "reason": "too few", "gates": []}
    )


@pytest.mark.parametrize(
    ("learning", "line"),
    [
        (LEARNED, "gate isolation: 1.500, must be at most 0.000"),
        (LEARNED, "1.23% of the time waiting for the loader, 4,567 tokens a second, MFU 0.250"),
        (CONTRAST, "views      loss 0.500 nats, guessing 3.470; reported, no gate"),
        (None, "not asked for: the mechanics decide alone"),
        (
            {"passed": True, "gated": True, "reason": "too few", "gates": []},
            "nothing is known to be wrong: too few",
        ),
    ],
)
def test_the_terminal_says_what_failed_and_what_was_measured(
    learning: dict[str, Any] | None, line: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    print_report(report_of(learning) | {"output": str(tmp_path)}, as_json=False)
    assert line in capsys.readouterr().out


LOW: dict[str, Any] = {
    **LEARNED,
    "loss": 0.875,
    "unigram_entropy": 4.0,
    "gates": [GATE, {**GATE, "name": "leak_floor", "value": 0.875, "bound": 1.0, "passed": False}],
}


def test_a_loss_that_is_suspiciously_low_is_explained(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    report = report_of(LOW) | {"output": str(tmp_path)}
    print_report(report, as_json=False)
    look = f"shardmill inspect {tmp_path} --dataset dataset --row 0"
    for said in (capsys.readouterr().out, rendered(report)):
        assert "the inputs may show the labels" in said
        assert "such as dialogues that fill in one template, give it too" in said
        assert "The exact checks passed" in said
        assert look in said
        assert "set verify.leak_floor = 0.21 or less (0 turns the gate off)" in said


@pytest.mark.parametrize("learning", [LEARNED, CONTRAST, None])
def test_any_other_loss_is_no_such_suspicion(
    learning: dict[str, Any] | None, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    print_report(report_of(learning) | {"output": str(tmp_path)}, as_json=False)
    assert "the inputs may show" not in capsys.readouterr().out + rendered(report_of(learning))


@pytest.mark.parametrize(
    ("learning", "said"),
    [
        (
            LOW,
            "dataset (the exact checks passed, but the loss is so low that the gate leak_floor failed);",
        ),
        (LEARNED, "dataset; see the findings above"),
    ],
)
def test_the_last_line_says_that_no_exact_check_failed(learning: dict[str, Any], said: str) -> None:
    report = report_of(learning)
    report["verify"]["dataset"]["passed"] = False
    with pytest.raises(VerificationError, match=re.escape(said)):
        _require_pass(Report.model_validate(report))
