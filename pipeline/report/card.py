"""Card: a dataset card in the form of the Hugging Face Hub, from a run's report.

Metadata in YAML between lines of ---, then Markdown: what is in it, where it is from, what was done, and
how it was checked. (Hub documentation, "Dataset Cards"; Gebru et al. 2021, "Datasheets for Datasets".)
"""

import json
import re
from collections.abc import Iterator

from pipeline.report.plain import TextTable, markdown_text
from pipeline.report.report import DocumentCounts, Report
from pipeline.report.verdicts import word_of
from pipeline.report.words import said_of_reason
from pipeline.run_file.config import RunFile
from stages.objectives.table import KINDS
from stages.reading.source_code import CODE_ENDINGS

_LICENCES = (
    *(
        "apache-2.0",
        "mit",
        "bsd-2-clause",
        "bsd-3-clause",
        "gpl-3.0",
        "lgpl-3.0",
        "mpl-2.0",
        "unlicense",
    ),
    *("cc0-1.0", "cc-by-3.0", "cc-by-4.0", "cc-by-sa-3.0", "cc-by-sa-4.0", "cc-by-nc-4.0"),
    *("cc-by-nc-sa-4.0", "odc-by", "odbl", "pddl", "openrail"),
)
"""What the Hub knows of licences, as it writes them; others are "other"."""
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
_LARGER = ((10_000_000, "1M<n<10M"), (100_000_000, "10M<n<100M"), (1_000_000_000, "100M<n<1B"))
_LARGEST = "n>1B"
_ISO = re.compile(r"[a-z]{2,3}")
_MOST_LANGUAGES = 20
"""Rows of languages in the text; the metadata has all."""


def render_card(report: Report, file: RunFile, *, configs: str = "") -> str:
    """Return the card of a run.

    Args:
        report: of the run, as far as it has come.
        file: its settings.
        configs: lines of metadata that say which files are which split, if the card lies beside them.
    """
    metadata = [*_metadata(report, file), *([configs] if configs else [])]
    parts = ["\n".join(["---", *metadata, "---"]), *_text(report, file)]
    return "\n\n".join(parts) + "\n"


def _metadata(report: Report, file: RunFile) -> Iterator[str]:
    yield f"pretty_name: {json.dumps(report.name)}"
    licences = {_known(source.license) for source in file.sources}
    (licence,) = licences if len(licences) == 1 else {"other"}
    yield f"license: {licence}"
    named = {row.language for row in report.languages if _ISO.fullmatch(row.language)}
    languages = sorted(named - CODE_ENDINGS.keys())  # go is no natural language
    if named - set(languages):
        languages.append("code")
    if languages:
        yield "language:"
        yield from (f"- {json.dumps(language)}" for language in languages)  # no is a word of YAML
    categories = {KINDS[dataset.objective.kind].category for dataset in file.datasets}
    yield "task_categories:"
    yield from (f"- {category}" for category in sorted(categories))
    kept = _kept(report.documents)
    size = next((said for most, said in (*_SIZES, *_LARGER) if kept < most), _LARGEST)
    yield f"size_categories:\n- {size}"
    yield "tags:\n- shardmill\n- pretraining"


def _kept(documents: DocumentCounts) -> int:
    """Return how many documents are left, as far as the run has come."""
    return documents.read if documents.kept is None else documents.kept


def _known(licence: str | None) -> str:
    name = (licence or "").lower().replace(" ", "-")
    return name if name in _LICENCES else "other"


def _text(report: Report, file: RunFile) -> Iterator[str]:
    documents, tokens = report.documents, sum(row.tokens for row in report.languages)
    yield f"# {markdown_text(report.name)}"
    kept = _kept(documents)
    yield (
        f"{kept:,} documents, {tokens:,} tokens in {len(report.languages):,} languages, made by"
        f" Shardmill from {len(file.sources):,} source{'s' * (len(file.sources) != 1)}."
    )
    yield "## Sources"
    yield TextTable(
        ("source", "paths", "licence"),
        [
            (source.name, ", ".join(source.paths or (source.run or "",)), source.license or "not said")
            for source in file.sources
        ],
    ).markdown
    if report.languages:
        yield "## Languages"
        yield TextTable(
            ("language", "documents", "bytes", "tokens", "share"),
            [
                (
                    row.language,
                    f"{row.documents:,}",
                    f"{row.bytes:,}",
                    f"{row.tokens:,}",
                    f"{row.tokens / max(tokens, 1):.2%}",
                )
                for row in report.languages[:_MOST_LANGUAGES]
            ],
        ).markdown
        if len(report.languages) > _MOST_LANGUAGES:
            yield f"and {len(report.languages) - _MOST_LANGUAGES:,} languages with fewer tokens."
    yield "## What was done"
    yield "\n".join(f"- {markdown_text(line)}" for line in _done(report, file))
    yield from _rows_of_datasets(report, file)
    yield from _mix(report)
    if not report.verify:
        yield "The run has not come to its end: nothing of it is verified."
        return
    has_learned = any(verdict.learning is not None for verdict in report.verify.values())
    said = "A small model was trained on the rows, if enough is there, and held to gates. "
    trained = said if has_learned else ""
    yield "## How it was checked"
    yield (
        "For every row of a dataset that passed: each document is in the rows once and whole, and its"
        " tokens decode to its text, or to what the tokenizer keeps of it; columns are those that the"
        f" objective defines; nothing leads from one document to another. {trained}`report/index.html`"
        " has all numbers."
    )
    yield "## To make it again"
    yield "\n".join(f"- {markdown_text(line)}" for line in _again(report, file))


def _rows_of_datasets(report: Report, file: RunFile) -> Iterator[str]:
    yield "## Datasets"
    yield TextTable(
        ("dataset", "objective", "split", "rows", "tokens", "verdict"),
        [
            (
                dataset.name,
                dataset.objective.kind,
                split,
                f"{totals.rows:,}",
                f"{totals.tokens:,}",
                word_of(report.verify[dataset.name]).upper()
                if dataset.name in report.verify
                else "not verified",
            )
            for dataset in file.datasets
            for split, totals in report.datasets.get(dataset.name, {}).items()
        ],
    ).markdown


def _done(report: Report, file: RunFile) -> Iterator[str]:
    documents = report.documents
    yield f"records read: {documents.read:,}"
    for reason, count in documents.dropped.items():
        if count:
            yield f"dropped, {said_of_reason(reason)}: {count:,}"
    for method, count in (documents.removed or {}).items():
        yield f"removed, {said_of_reason(method)}: {count:,}"
    if file.dedup.near:
        near = file.dedup.minhash
        yield f"near-duplicates: MinHash-LSH of {near.num_perm}, Jaccard similarity {near.threshold}"
    for one in file.filters:
        yield f"filter: {one.kind}"
    if report.tokenizer is not None:
        how = file.tokenizer.path or f"trained on the texts ({file.tokenizer.train.model})"
        yield f"tokenizer: {how}, {report.tokenizer.vocab_size} ids"


def _mix(report: Report) -> Iterator[str]:
    for name, mix in report.mix.items():
        yield f"## Mix of {markdown_text(name)}"
        yield TextTable(
            ("source", "tokens in rows", "share"),
            [(one.source, f"{one.tokens:,}", f"{one.share:.2%}") for one in mix.sources],
        ).markdown


def _again(report: Report, file: RunFile) -> Iterator[str]:
    yield f"seed {file.seed}; the same inputs, run file and version give the same bytes"
    if made := report.made:
        libraries = ", ".join(f"{name} {version}" for name, version in made.libraries.items())
        yield f"Shardmill {made.shardmill}, Python {made.python}, {libraries}"
    for name, splits in report.datasets.items():
        for split, totals in splits.items():
            yield f"fingerprint of {name}/{split}: {totals.fingerprint}"
