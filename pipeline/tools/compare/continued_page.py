"""Models that went on from a checkpoint, as a table and as a page: losses on every evaluation set."""

from itertools import combinations
from typing import Any, NotRequired, TypedDict

from markupsafe import Markup

from pipeline.report.plain import JsonObject, PlainConsole, TextTable, print_json
from pipeline.report.plot import Axis, Plot
from pipeline.report.template import page_template
from pipeline.tools.compare.page import MeanContent

BEFORE = "before training"
_PICTURES = 6
"""Most pictures of two evaluation sets against each other."""


class MeanLossContent(TypedDict):
    """Losses over the seeds, and by how much training changed them."""

    nats: MeanContent
    bits: MeanContent
    change: MeanContent
    """Of the nats."""
    seen: MeanContent | None


class ContinuedContent(TypedDict):
    """What models of one dataset came to, or of several in order; or why there are none."""

    name: str
    run: str
    datasets: list[str]
    fingerprints: list[str]
    reason: NotRequired[str]
    device: NotRequired[str]
    passes: NotRequired[list[float]]
    mean: NotRequired[dict[str, MeanLossContent]]
    models: NotRequired[list[dict[str, Any]]]
    """Each the JSON of a `ContinuedModel`."""


class EvaluationContent(TypedDict):
    """An evaluation set: where it lies, and what was measured of it."""

    folder: str
    documents: str
    """Of it: all, or those of a source or language."""
    fingerprint: str
    tokens: int
    bytes: int


class ContinuedReport(TypedDict):
    """What models came to that went on from one checkpoint: compare.json."""

    format_version: int
    start: str
    model: JsonObject
    settings: dict[str, int | float]
    runs: dict[str, str]
    evaluations: dict[str, EvaluationContent]
    before: dict[str, dict[str, MeanContent]]
    """Losses before training, by evaluation set."""
    datasets: list[ContinuedContent]
    output: NotRequired[str]


def measured_of(report: ContinuedReport) -> list[ContinuedContent]:
    """Return the datasets that have models."""
    return [record for record in report["datasets"] if "mean" in record]


def continued_table(report: ContinuedReport) -> TextTable:
    """Return the losses: the first row before training, then a dataset each."""
    names = list(report["evaluations"])
    headings = ["dataset", "passes"]
    for name in names:
        headings += [f"{name} nats", "change", "b/B"]
    measured = measured_of(report)
    seen = [name for name in names if any(record["mean"][name]["seen"] for record in measured)]
    headings += [f"{name} seen" for name in seen]
    first = [BEFORE, ""]
    for name in names:
        of = report["before"][name]
        first += [_shown(of["nats"], "{:.3f}"), "", _shown(of["bits"], "{:.3f}")]
    rows = [[*first, *("" for _ in seen)]]
    for record in measured:
        cells = [record["name"], " + ".join(f"{passes:.2f}" for passes in record["passes"])]
        for name in names:
            mean = record["mean"][name]
            cells += [_shown(mean["nats"], "{:.3f}"), _shown(mean["change"], "{:+.3f}", spread=False)]
            cells.append(_shown(mean["bits"], "{:.3f}"))
        shares = [record["mean"][name]["seen"] for name in seen]
        cells += ["" if share is None else f"{share['mean']:.1%}" for share in shares]
        rows.append(cells)
    return TextTable(headings, rows)


def _shown(value: MeanContent, form: str, *, spread: bool = True) -> str:
    aside = f" ±{form.format(value['deviation'])}" if spread and value["deviation"] else ""
    return form.format(value["mean"]) + aside


def print_continued(report: ContinuedReport, *, as_json: bool) -> None:
    """Print what models came to that went on from a checkpoint."""
    if as_json:
        print_json(report)
        return
    console = PlainConsole()
    console.show(continued_table(report).plain)
    for record in report["datasets"]:
        if "reason" in record:
            console.line(f"{record['name']}: not compared: {record['reason']}")
    settings, model = report["settings"], report["model"]
    console.line()
    console.line(
        f"{model['architecture']}, {model['parameters']:,} parameters; {settings['tokens']:,} tokens a"
        f" model, seeds: {settings['seeds']}; losses on held-out text"
    )
    console.line(f"pictures: {report['output']}/compare.html")


def render_continued(report: ContinuedReport) -> str:
    """Return the HTML of a comparison of models that went on from a checkpoint."""
    pictures = draw_pictures(report).values()
    return page_template("pipeline.tools.compare/continued.html.j2").render(
        report=report,
        table=continued_table(report),
        pictures=[Markup(one) for one in pictures],  # noqa: S704  # their texts are escaped
    )


def draw_pictures(report: ContinuedReport) -> dict[str, str]:
    """Return the pictures by the names of their files, as SVG."""
    if not measured_of(report):
        return {}
    names = list(report["evaluations"])
    pictures = {f"loss-{name}.svg": draw_losses(report, name) for name in names}
    pairs = list(combinations(names, 2))[:_PICTURES]
    return pictures | {f"{one}-{other}.svg": draw_two(report, one, other) for one, other in pairs}


def draw_losses(report: ContinuedReport, name: str) -> str:
    """Return the picture of the losses on an evaluation set in training: means, with their spread."""
    curves = [_curve(record, name) for record in measured_of(report)]
    tokens = [at for curve in curves for at, _, _ in curve]
    values = [mean + side * spread for curve in curves for _, mean, spread in curve for side in (-1, 1)]
    plot = Plot(
        f"Loss on {name}",
        Axis.around("tokens read in training", tokens),
        Axis.around("nats a token, held out (lower is better)", values),
    )
    parts = plot.frame()
    for number, curve in enumerate(curves):
        lower = [(at, mean - spread) for at, mean, spread in curve]
        upper = [(at, mean + spread) for at, mean, spread in curve]
        parts.append(plot.band(number, lower, upper))
        parts.append(plot.line(number, [(at, mean) for at, mean, _ in curve]))
    return plot.svg([*parts, *plot.legend([record["name"] for record in measured_of(report)])])


def _curve(record: ContinuedContent, name: str) -> list[tuple[float, float, float]]:
    """Return tokens, mean loss and deviation at each moment."""
    curve = []
    for moments in zip(*(model["measurements"] for model in record["models"]), strict=True):
        mean = mean_of([moment["losses"][name]["nats"] for moment in moments])
        tokens = sum(moment["tokens"] for moment in moments) / len(moments)
        curve.append((tokens, mean["mean"], mean["deviation"]))
    return curve


def draw_two(report: ContinuedReport, one: str, other: str) -> str:
    """Return the picture of the losses after training on two evaluation sets, a mark a dataset."""
    records = measured_of(report)
    means = [(record["mean"][one]["nats"], record["mean"][other]["nats"]) for record in records]
    before = (report["before"][one]["nats"]["mean"], report["before"][other]["nats"]["mean"])
    axes = [
        Axis.around(
            f"{name}: nats a token after training ({start:.2f} before; lower is better)",
            [pair[n]["mean"] + side * pair[n]["deviation"] for pair in means for side in (-1, 1)],
        )
        for n, (name, start) in enumerate(zip((one, other), before, strict=True))
    ]
    plot = Plot(f"{one} against {other}", *axes)
    parts = plot.frame()
    for number, (record, (x, y)) in enumerate(zip(records, means, strict=True)):
        label = f"{record['name']}: {one} {x['mean']:.3f}, {other} {y['mean']:.3f}"
        spread = (x["deviation"], y["deviation"])
        parts += plot.mark(number, (x["mean"], y["mean"]), spread, label)
    return plot.svg([*parts, *plot.legend([record["name"] for record in records], marks=True)])


def mean_of(values: list[float]) -> MeanContent:
    """Return the mean and the standard deviation of a sample of seeds; 0 of one."""
    mean = sum(values) / len(values)
    squares = sum((value - mean) ** 2 for value in values)
    return {"mean": mean, "deviation": (squares / max(1, len(values) - 1)) ** 0.5}
