"""The comparison as one page and as a table: what models of one budget came to, dataset by dataset."""

from typing import Any, NotRequired, TypedDict

from pipeline.report.pictures import loss_curves
from pipeline.report.plain import JsonObject, PlainConsole, TextTable, print_json
from pipeline.report.template import page_template

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


class MeanContent(TypedDict):
    """A number over the seeds."""

    mean: float
    deviation: float


class ComparedContent(TypedDict):
    """One dataset: what its models came to, or why there are none."""

    name: str
    run: str
    dataset: str
    objective: JsonObject
    fingerprint: str
    reason: NotRequired[str]
    device: NotRequired[str]
    mean: NotRequired[dict[str, MeanContent | None]]
    models: NotRequired[list[dict[str, Any]]]
    """Each the JSON of a `ModelMeasures`."""


class ComparisonReport(TypedDict):
    """What models of one budget came to: compare.json."""

    format_version: int
    settings: dict[str, int | float]
    runs: dict[str, str]
    texts: dict[str, int]
    classes: list[str] | None
    majority: float | None
    datasets: list[ComparedContent]
    output: NotRequired[str]


def render_comparison(report: ComparisonReport) -> str:
    """Return the HTML of a comparison."""
    charts = {}
    for record in report["datasets"]:
        entropy = record.get("mean", {}).get("unigram_entropy")
        if entropy is not None:
            curves = {f"seed {model['seed']}": model["curve"] for model in record["models"]}
            charts[record["name"]] = loss_curves(curves, entropy["mean"], "frequencies alone")
    return page_template("pipeline.tools.compare/comparison.html.j2").render(
        report=report, table=comparison_table(report), charts=charts
    )


def comparison_table(report: ComparisonReport) -> TextTable:
    """Return each dataset with its numbers; those that no dataset has are left out."""
    measured = [record for record in report["datasets"] if "mean" in record]
    shown = [key for key in COLUMNS if any(record["mean"][key] for record in measured)]
    return TextTable(
        ["dataset", *(COLUMNS[key][0] for key in shown)],
        [[record["name"], *(_cell(key, record["mean"][key]) for key in shown)] for record in measured],
    )


def _cell(key: str, value: MeanContent | None) -> str:
    if value is None:
        return "-"
    form = COLUMNS[key][1]
    spread = f" ±{form.format(value['deviation'])}" if value["deviation"] else ""
    return form.format(value["mean"]) + spread


def print_comparison(report: ComparisonReport, *, as_json: bool) -> None:
    """Print what models of one budget came to."""
    if as_json:
        print_json(report)
        return
    console = PlainConsole()
    console.show(comparison_table(report).plain)
    for record in report["datasets"]:
        if "reason" in record:
            console.line(f"{record['name']}: not compared: {record['reason']}")
    texts, settings = report["texts"], report["settings"]
    console.line()
    console.line(
        f"{settings['tokens']:,} tokens a model, seeds: {settings['seeds']}; asked about"
        f" {texts['fresh']:,} held-out documents"
    )
    if report["classes"]:
        classes = ", ".join(report["classes"])
        console.line(f"probe: {classes}; the most frequent alone: {report['majority']:.1%}")
    console.line(f"curves: {report['output']}/compare.html")
