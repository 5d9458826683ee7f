"""With `--json`, what a command found is all that it prints: one JSON text on standard output."""

import ast
import json
from collections.abc import Callable
from pathlib import Path

import pytest

import pipeline
from pipeline.report.clusters import print_clusters
from pipeline.report.fate import print_fate
from pipeline.report.inspection import print_row
from pipeline.report.terminal import print_report
from pipeline.tools.compare.continued_page import print_continued
from pipeline.tools.compare.page import print_comparison
from pipeline.tools.export.terminal import print_export, print_quick, print_stages
from pipeline.tools.forecast.terminal import print_forecast
from pipeline.tools.init.init import print_init
from pipeline.tools.tokenizer.compare import print_tokenizers
from pipeline.tools.tokenizer.extension_measures import print_extension
from pipeline.tools.tokenizer.sweep_tables import print_sweep

PRINTED_AS_THEY_ARE = (
    print_clusters,
    print_comparison,
    print_continued,
    print_export,
    print_extension,
    print_fate,
    print_forecast,
    print_init,
    print_quick,
    print_report,
    print_row,
    print_stages,
    print_sweep,
    print_tokenizers,
)

PRINTED_OTHERWISE = {
    "pipeline.report.status.print_status",
    "pipeline.report.terminal.print_plan",
    "pipeline.tools.tokenizer.export.print_export",
    "pipeline.tools.tokenizer.resize_tables.print_resizing",
    "pipeline.tools.tokenizer.verify.print_proof",
}
"""They make JSON of what they are given; tests of their commands look at it."""


def test_every_printer_of_json_is_looked_at_here_or_by_the_tests_of_its_command() -> None:
    listed = {f"{one.__module__}.{one.__name__}" for one in PRINTED_AS_THEY_ARE}
    root = Path(pipeline.__path__[0]).parent
    there = {
        f"{'.'.join(path.relative_to(root).with_suffix('').parts)}.{node.name}"
        for folder in ("report", "tools")
        for path in (root / "pipeline" / folder).rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
        and node.name.startswith("print_")
        and "as_json" in {one.arg for one in node.args.kwonlyargs}
    }
    assert there == listed | PRINTED_OTHERWISE


@pytest.mark.parametrize("printer", PRINTED_AS_THEY_ARE, ids=lambda printer: printer.__name__)
def test_what_was_found_is_printed_as_it_is_and_alone(
    printer: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    found = {"path": "ä \N{KATAKANA LETTER A}", "tokens": 12, "share": 0.25, "parts": [{"none": None}]}
    printer(found, as_json=True)
    printed = capsys.readouterr()
    assert json.loads(printed.out) == found
    assert printed.err == ""
