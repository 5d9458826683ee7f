"""The comparison as one page and as a table: what models of one budget came to, dataset by dataset."""

from importlib.resources import files
from typing import Any

from rich.table import Table

from pipeline.report.page import loss_chart, page_environment
from pipeline.report.plain import PlainTable

COLUMNS = {
    "labelled_tokens": ("labels", "{:,.0f}"),
    "unigram_entropy": ("unigram", "{:.2f}"),
    "loss": ("loss", "{:.2f}"),
    "gain": ("gain", "{:.2f}"),
    "frequencies": ("frequencies b/B", "{:.3f}"),
    "going_on": ("next b/B", "{:.3f}"),
    "filling_in": ("fill b/B", "{:.3f}"),
    "accuracy": ("probe", "{:.1%}"),
    "untrained_accuracy": ("untrained", "{:.1%}"),
    "repeated": ("repeated b/B", "{:.3f}"),
    "once": ("once b/B", "{:.3f}"),
}
"""The numbers that are shown, with their headings; `fresh` is what `going_on` is."""


def render_comparison(report: dict[str, Any]) -> str:
    """Return the HTML of a comparison."""
    source = files("pipeline.report").joinpath("comparison.html.j2").read_text(encoding="utf-8")
    headings, rows = comparison_rows(report)
    charts = {
        record["name"]: loss_chart(
            {f"seed {model['seed']}": model["curve"] for model in record["models"]},
            record["mean"]["unigram_entropy"]["mean"],
        )
        for record in report["datasets"]
        if "models" in record
    }
    return (
        page_environment()
        .from_string(source)
        .render(report=report, headings=headings, rows=rows, charts=charts)
    )


def comparison_table(report: dict[str, Any]) -> Table:
    """Return the table that people read on a terminal."""
    headings, rows = comparison_rows(report)
    table = PlainTable("dataset", *headings).right()
    for name, cells in rows:
        table.add(name, *cells)
    return table


def comparison_rows(report: dict[str, Any]) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """Return the headings, and each dataset with its numbers; those that no dataset has are left out."""
    measured = [record for record in report["datasets"] if "mean" in record]
    shown = [key for key in COLUMNS if any(record["mean"][key] for record in measured)]
    rows = [(record["name"], [_cell(key, record["mean"][key]) for key in shown]) for record in measured]
    return [COLUMNS[key][0] for key in shown], rows


def _cell(key: str, value: dict[str, float] | None) -> str:
    if value is None:
        return "-"
    form = COLUMNS[key][1]
    spread = f" ±{form.format(value['deviation'])}" if value["deviation"] else ""
    return form.format(value["mean"]) + spread
