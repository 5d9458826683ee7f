"""The report as one page: no script, no file beside it, readable in twenty years."""

from collections.abc import Iterator
from pathlib import PurePath
from shlex import quote
from typing import Any, NamedTuple

from markupsafe import Markup

from pipeline.report.clusters import marked
from pipeline.report.evidence import joined_in
from pipeline.report.fairness import mix_table, parity_picture, parity_table, tokenizer_table
from pipeline.report.flow import flow_stages, held_out
from pipeline.report.mixes import mixed_languages_table, shares_table, stages_table, windows_table
from pipeline.report.pictures import (
    MOST_DRAWN,
    draw_shares,
    draw_windows,
    length_bars,
    loss_curves,
    similarity_bars,
    step_times,
    text_panels,
)
from pipeline.report.plain import TextTable
from pipeline.report.report import Packed, Report, ReportedMix
from pipeline.report.template import page_template
from pipeline.report.verdicts import UNPROVEN_SAID, suspected_leak, word_of
from pipeline.report.words import GATES, GateWords, said_of_reason
from pipeline.steps.dedup.clusters import ClusterDocument, LargeCluster
from stages.filtering.characters import MEASURED_CHARACTERS

MAX_LANGUAGES = 30
"""Rows of languages on the page; all are in report.json."""
MAX_PACKED = 10
"""Sources and languages of each split in the table of padding and cuts; all are in report.json."""
MAX_FINDINGS = 200
"""Findings of a dataset on the page; all are in verdict.json."""
_MINUTE, _HOUR = 60, 3_600


def render_page(report: Report) -> str:
    """Return the HTML of a run's report."""
    fairness, similarity = report.fairness, report.similarity
    languages = mix_table(report, MAX_LANGUAGES) if report.languages else None
    mixes = [_mix_section(name, one) for name, one in report.mix.items()]
    return page_template("page.html.j2").render(
        report=report,
        folder=quote(report.output),
        sections=_sections(report),
        generation=_generation(report.output),
        duration=duration,
        flow=flow_stages(report),
        held_out=held_out(report),
        curves=loss_curves,
        gantt=step_times(report.steps),
        joined=joined_in(report),
        lengths_picture=length_bars(report.lengths) if report.lengths else "",
        text_panels=text_panels(report.texts) if report.texts else [],
        measured_characters=MEASURED_CHARACTERS,
        similarity_picture=similarity_bars(similarity) if similarity else "",
        marked=marked,
        kept_excerpt=_kept_excerpt,
        gate_words=_gate_words,
        said_of_reason=said_of_reason,
        suspected_leak=suspected_leak,
        unproven_said=UNPROVEN_SAID,
        word_of=word_of,
        rows=report.rows or {},
        losses=list(_losses(report)),
        mix=languages,
        fairness=fairness,
        parity=fairness and parity_table(fairness, MAX_LANGUAGES),
        tokenizers=fairness and tokenizer_table(fairness),
        picture=Markup(parity_picture(fairness, MAX_LANGUAGES) if fairness else ""),  # noqa: S704  # its texts are escaped
        mixes=mixes,
        most_drawn=MOST_DRAWN,
        most_findings=MAX_FINDINGS,
        most_packed=MAX_PACKED,
    )


def duration(seconds: float) -> str:
    """Return a time as people say it: 72.4 -> "1 min 12 s"."""
    whole = round(seconds)
    hours, minutes, rest = whole // _HOUR, whole % _HOUR // _MINUTE, whole % _MINUTE
    if hours:
        return f"{hours:,} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _sections(report: Report) -> list[tuple[str, str]]:
    """Return the name and the title of each section that has something to show."""
    documents = report.documents
    dropped = (
        any(documents.dropped.values()) or documents.removed or documents.samples or documents.noticed
    )
    sections = (
        ("verdict", "Can I train on it?", True),
        ("flow", "What became of the documents", report.ledger),
        ("dropped", "What is gone, and why", dropped),
        ("duplicates", "Duplicates", report.similarity and documents.removed),
        ("texts", "What the texts are made of", report.texts),
        ("languages", "Languages", report.languages),
        ("mix", "The mix", report.mix or report.whole),
        ("rows", "The rows", report.datasets),
        ("proof", "How it was checked", report.verify or report.audit),
        ("cost", "Time and memory", report.steps),
        ("made", "How it was made", report.made),
    )
    return [(name, title) for name, title, shown in sections if shown]


class MixSection(NamedTuple):
    """What the page shows of the mix of a dataset."""

    name: str
    mix: ReportedMix
    shares: TextTable
    languages: TextTable
    windows: TextTable | None
    stages: TextTable | None
    bars: Markup
    panels: Markup


def _mix_section(name: str, mix: ReportedMix) -> MixSection:
    return MixSection(
        name=name,
        mix=mix,
        shares=shares_table(mix),
        languages=mixed_languages_table(mix, MAX_LANGUAGES),
        windows=windows_table(mix),
        stages=stages_table(mix),
        bars=Markup(draw_shares(mix)),  # noqa: S704  # its texts are escaped
        panels=Markup(draw_windows(mix)),  # noqa: S704  # likewise
    )


def _losses(report: Report) -> Iterator[tuple[str, Packed]]:
    """Yield the sources of datasets in which a loss falls on some tokens alone."""
    for name, splits in report.packing.items():
        for split, content in splits.items():
            for row in content.sources[:MAX_PACKED]:
                if row.learned is not None:
                    yield f"{name}/{split}", row


def _kept_excerpt(cluster: LargeCluster, shown: ClusterDocument) -> str | None:
    """Return the excerpt of the document that was kept for a removed one, if it is shown."""
    kept = (one.excerpt for one in cluster.shown if one.id == shown.kept_id)
    return next(kept, None)


def _gate_words(name: str) -> GateWords:
    return GATES.get(name, GateWords(name, ""))


def _generation(output: str) -> int | None:
    """Return the number of a generation of another run, by its folder; None for a run of its own."""
    place: Any = PurePath(output)
    return int(place.name) if place.parent.name == "generations" and place.name.isdecimal() else None
