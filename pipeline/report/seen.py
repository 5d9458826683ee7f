"""Seen: what a report has that is read from the run's files: examples, sizes, and how it was made."""

from pathlib import Path

from pipeline.report.before import languages_before, repeated_texts
from pipeline.report.content import RunReport
from pipeline.report.made import made_of
from pipeline.report.shown_rows import first_rows
from pipeline.report.similarity import similarity_of
from pipeline.report.texts import lengths_of, texts_of
from pipeline.run_file.config import RunFile


def add_seen(report: RunReport, file: RunFile, output: Path) -> None:
    """Add to a report what the files of its run show.

    Args:
        report: as far as the records of the steps tell it; changed.
        file: the settings.
        output: folder of the run.
    """
    documents = report["documents"]
    similarity = similarity_of(file, output) if "removed" in documents else None
    if similarity is not None:
        report["similarity"] = similarity
    if documents.get("cut_bytes"):
        report["repeated"] = repeated_texts(output)
    if report["languages"]:
        before, lengths = languages_before(output), lengths_of(output)
        if before is not None:
            report["languages_before"] = before
        if lengths is not None:
            report["lengths"] = lengths
    texts = texts_of(output)
    if texts is not None:
        report["texts"] = texts
    verified = {name: splits for name, splits in report["datasets"].items() if name in report["verify"]}
    if verified:
        report["rows"] = first_rows(output, verified)
    report["made"] = made_of(file, output)
