"""The summary of a run: what every step reported, added up, and refused where it does not add up."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from pipeline.inputs.limited import limited_note
from pipeline.inputs.skipped import SkippedFiles
from pipeline.report.card import render_card
from pipeline.report.content import (
    AuditContent,
    DocumentsContent,
    FlowContent,
    LanguageContent,
    RunReport,
    SampleContent,
    SplitContent,
    VerdictContent,
)
from pipeline.report.evidence import add_evidence, joined_warning
from pipeline.report.fairness import fairness_of
from pipeline.report.flow import shown_place
from pipeline.report.mixes import mixes_in, mixes_of, packed_of, wholes_of
from pipeline.report.packing import COUNTS, REPORT, keep_counts, packing_of, silent_sources
from pipeline.report.page import render_page
from pipeline.report.plain import JsonObject
from pipeline.report.seen import add_seen
from pipeline.report.steps import step_metrics
from pipeline.report.verdicts import word_of
from pipeline.run_file.config import OWN, RunFile
from pipeline.steps.cut.step import CUT
from pipeline.steps.decontaminate.step import DECONTAMINATE
from pipeline.steps.dedup.step import DEDUP, section_loss, short_first
from pipeline.steps.draw.step import DRAW
from pipeline.steps.ingest.columns import unused_roles
from pipeline.steps.ingest.step import INGEST
from pipeline.steps.records import AuditReport, StepRecord
from pipeline.steps.replay.step import REPLAY
from pipeline.steps.selection import SelectionRecord, selecting
from pipeline.steps.shard.make import MIXED
from pipeline.steps.shard.step import SHARD
from pipeline.steps.split.step import SPLIT
from pipeline.steps.step import Records, Scope
from pipeline.steps.tokenize.encode import LanguageTokens
from pipeline.steps.tokenize.step import TOKENIZE
from pipeline.steps.tokenizer.limits import LanguageCosts, cost_warnings
from pipeline.steps.tokenizer.step import TOKENIZER
from pipeline.steps.verify.step import VERIFY, VerdictRecord
from stages.errors import VerificationError
from stages.ledger import Flow, Tally
from stages.reading.noticed import said_of_notice
from stages.tokenizer.normalization import normalization_loss


def write_report(
    output: Path,
    file: RunFile,
    records: Records,
    *,
    audited: AuditReport | None = None,
    skipped: Sequence[SkippedFiles] = (),
    input_bytes: int | None = None,
    stopped: str | None = None,
) -> RunReport:
    """Sum up a run; write DIR/report/report.json, index.html and card.md, and the verdicts.

    `stopped` says why the work stopped, if it did; the report is of what was done until then.

    Raises:
        VerificationError: documents or tokens do not add up.
    """
    report = summarise(
        file, records, output, audited=audited, skipped=skipped, input_bytes=input_bytes, stopped=stopped
    )
    remove_report(output)
    folder = output / REPORT
    folder.mkdir(exist_ok=True)
    text = json.dumps(report, indent=1, ensure_ascii=False)
    (folder / "report.json").write_text(text + "\n", encoding="utf-8")
    (folder / "index.html").write_text(render_page(report), encoding="utf-8")
    (folder / "card.md").write_text(render_card(report, file), encoding="utf-8")
    if stopped is None:
        (folder / COUNTS).unlink(missing_ok=True)
    for name, verdict in report["verify"].items():
        place = output / "verify" / name / "verdict.json"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(verdict, indent=1) + "\n", encoding="utf-8")
    return report


def remove_report(output: Path) -> None:
    """Remove the report of a run that is about to change; what was counted of its rows is kept apart."""
    keep_counts(output)
    for name in (
        "report.json",
        "index.html",
        "card.md",
        "report.html",
    ):  # the last of an earlier version
        (output / REPORT / name).unlink(missing_ok=True)


def summarise(
    file: RunFile,
    records: Records,
    output: Path,
    *,
    audited: AuditReport | None = None,
    skipped: Sequence[SkippedFiles] = (),
    input_bytes: int | None = None,
    stopped: str | None = None,
) -> RunReport:
    """Return the report of a run that has come as far as its records."""
    found = records.datasets(VERIFY)
    verdicts = {one.name: found[one.name] for one in file.datasets if one.name in found}
    sound = audited is None or not audited.findings
    passed = sound and all(verdict.passed for verdict in verdicts.values()) if verdicts else None
    if stopped is not None:
        passed = None if sound else False
    tokenizer, split = records.get(TOKENIZER), records.get(SPLIT)
    datasets = _datasets(records)
    packing = packing_of(output, datasets)
    report: RunReport = {
        "name": file.name,
        "output": str(output),
        "sources": {s.name: {"license": s.license} for s in file.sources},
        "passed": passed,
        "stopped": stopped,
        "audit": cast("AuditContent", audited.model_dump(mode="json")) if audited else None,
        "ledger": {
            name: cast("FlowContent", record.ledger.model_dump(mode="json"))
            for name, record in records.items()
            if record.ledger is not None
        },
        "skipped": _skipped(skipped),
        "documents": _documents(file, records),
        "tokenizer": None if tokenizer is None else _plain(tokenizer),
        "warnings": [
            *filter(None, [limited_note(file, output)]),
            *(files.line for files in skipped),
            *filter(None, _warnings(file, records)),
            *silent_sources(packing),
            *(audited.missed if audited else ()),
        ],
        "languages": _languages(records),
        "split": None if split is None else _plain(split),
        "datasets": datasets,
        "packing": packing,
        "epochs_on_disk": {
            name: cast("JsonObject", _plain(one)["splits"])
            for name, one in records.datasets(DRAW).items()
        },
        "verify": {name: _verdict(verdict) for name, verdict in verdicts.items()},
        "steps": step_metrics(output, records, input_bytes=input_bytes),
    }
    _add_mixes(report, file, verdicts, output)
    add_seen(report, file, output)
    add_evidence(report, records, audited)
    if tokenizer is not None:
        _add_fairness(report, file, records, output)
    _require_conservation(report, records)
    return report


def _skipped(skipped: Sequence[SkippedFiles]) -> dict[str, dict[str, int]]:
    return {one.source: {str(why): n for why, n in one.by.items()} for one in skipped if one.by}


def _datasets(records: Records) -> dict[str, dict[str, SplitContent]]:
    made = records.datasets(SHARD).items()
    return {name: cast("dict[str, SplitContent]", _plain(one)["splits"]) for name, one in made}


def _add_mixes(
    report: RunReport, file: RunFile, verdicts: Mapping[str, VerdictRecord], output: Path
) -> None:
    """Add the mix of each dataset that has one, and of a generation each dataset as a whole."""
    if mixes := mixes_of(file, verdicts):
        report["mix"] = mixes
    if wholes := wholes_of(output, packed_of(verdicts), mixes_in(verdicts)):
        report["whole"] = wholes


def _add_fairness(report: RunReport, file: RunFile, records: Records, output: Path) -> None:
    """Add what languages take for the same text, and warnings that were not told as it was measured."""
    selections = _selections(file, records)
    stored = [row["language"] for row in report["languages"]]
    languages = stored or (list(selections[-1].languages) if selections else [])
    train = file.tokenizer.train if file.tokenizer.path is None else None
    parity, reference = {}, ""
    fairness = fairness_of(output, languages)
    if fairness is not None:
        report["fairness"], reference = fairness, fairness["reference"]
        parity = {name: rates[OWN]["parity"] for name, rates in fairness["languages"].items()}
    counted = {
        row["language"]: row["byte_tokens"] / max(row["tokens"], 1)
        for row in report["languages"]
        if "byte_tokens" in row and "byte_fallback" not in row
    }
    costs = LanguageCosts(
        train=train,
        text="encoded",
        byte_fallback=counted,
        parity=parity if train is None else {},
        reference=reference,
    )
    report["warnings"] += cost_warnings(costs, file.tokenizer.limits)


def _plain(record: StepRecord) -> JsonObject:
    """Return a record as JSON, without what the report has in places of its own."""
    content = record.model_dump(mode="json", exclude={"ledger", "warnings"})
    return cast("JsonObject", _without_flows(content))


def _verdict(verdict: VerdictRecord) -> VerdictContent:
    """Return a verdict as JSON.

    `returned` is there if not every text comes back as it was, `packed` if rows were counted, and
    `total_tokens` if the mix asks for a number of tokens.
    """
    content = {"verdict": word_of(verdict), **_plain(verdict)}
    for key in ("returned", "packed"):
        if not content[key]:
            del content[key]
    del content["mix"]  # which has a place of its own
    mix = verdict.mix
    if mix is not None and mix.total_asked is not None and mix.total_bound is not None:
        content["total_tokens"] = {
            "asked": mix.total_asked,
            "held": mix.tokens,
            "bound": mix.total_bound,
        }
    return cast("VerdictContent", content)


def _without_flows(content: object) -> object:
    """Return JSON without the flows of units, which the ledger sums up."""
    if not isinstance(content, dict):
        return content
    return {key: _without_flows(part) for key, part in content.items() if key != "flow"}


def _warnings(file: RunFile, records: Records) -> Iterator[str | None]:
    """Yield what settings and the tokenizer cost."""
    yield unused_roles(Scope(file))
    yield section_loss(Scope(file))
    yield short_first(Scope(file))
    yield _nothing_held_out(file, records)
    tokens = sum(row["tokens"] for row in _languages(records))
    yield joined_warning(records.get(SPLIT), tokens)
    yield from (warning for _, record in records.items() for warning in record.warnings)
    if file.tokenizer.path is None:
        yield normalization_loss(file.tokenizer.train.normalization)
        return
    tokenizer = records.get(TOKENIZER)
    yield None if tokenizer is None else tokenizer.warning
    rows = [row for row in _languages(records) if row.get("unknown")]
    if rows:
        unknown, tokens = (sum(row[key] for row in _languages(records)) for key in ("unknown", "tokens"))
        worst = max(rows, key=lambda row: row["unknown"] / row["tokens"])
        yield (
            f"tokenizer: {unknown:,} tokens are unknown, {unknown / tokens:.2%} of all, and in"
            f" {worst['language']} {worst['unknown'] / worst['tokens']:.2%}: it has no piece for these"
            " characters, and rows do not have them"
        )


def _nothing_held_out(file: RunFile, records: Records) -> str | None:
    """Say that the validation split has 0 rows though the run file asks for one, or None."""
    split, wanted = records.get(SPLIT), file.validation
    if split is None or split.clusters or not wanted.fraction:
        return None
    if split.candidates:
        return (
            f"validation.max_tokens = {wanted.max_tokens:,}: no document is held out, because the first"
            " that was drawn has more tokens, so the validation split has 0 rows; raise it"
        )
    kept = _selections(file, records)[-1].kept
    return (
        f"validation.fraction = {wanted.fraction}: no document is held out, because none of {kept:,} was"
        " drawn, so the validation split has 0 rows; raise it, or set it to 0"
    )


def _documents(file: RunFile, records: Records) -> DocumentsContent:
    splits = {source.name: source.text_split for source in file.sources}
    ingest, selections = records.get(INGEST), _selections(file, records)
    documents: DocumentsContent = {
        "read": 0,
        "dropped": {},
        "named_drops": [],
        "cleaned": 0,
        "text_bytes": 0,
    }
    if ingest is not None:  # the run did more than scan
        documents = {
            "read": ingest.read,
            "dropped": ingest.drops,
            "named_drops": [shown_place(line, splits) for line in ingest.named],
            "cleaned": ingest.cleaned,
            "text_bytes": sum(unit.text_bytes for unit in ingest.units),
        }
        if ingest.changes:
            documents["changed"] = ingest.changes
        if ingest.noticed:
            documents["noticed"] = {
                source: {said_of_notice(name): number for name, number in counts.items()}
                for source, counts in ingest.noticed.items()
            }
        if ingest.samples:
            samples = [
                sample.model_dump(mode="json") | {"place": shown_place(sample.place, splits)}
                for sample in ingest.samples
            ]
            documents["samples"] = cast("list[SampleContent]", samples)
    found = records.get(DECONTAMINATE)
    if found is not None:
        documents |= cast("DocumentsContent", {"evaluation_sets": _plain(found)["sets"]})
    if selections:
        documents["removed"] = {why: n for one in selections for why, n in one.removed.items()}
        documents["kept"] = selections[-1].kept
    if (dedup := records.get(DEDUP)) is not None and file.dedup.exact:
        plain = dedup.model_dump(mode="json", include={"sources", "largest"})
        clusters = {"removed_by_source": plain["sources"], "clusters": plain["largest"]}
        documents |= cast("DocumentsContent", clusters)
    cuts = records.get(CUT)
    if cuts is not None:
        documents["cut_bytes"], documents["cut_documents"] = cuts.bytes, cuts.documents
    return documents


def _selections(file: RunFile, records: Records) -> list[SelectionRecord]:
    """Return the records of the steps that decide what is kept, as far as they are done."""
    done = dict(records.items())
    found = (done.get(name) for name in selecting(file))
    return [record for record in found if isinstance(record, SelectionRecord)]


def _languages(records: Records) -> list[LanguageContent]:
    """Return documents, bytes and tokens by language, most tokens first."""
    stored = records.get(TOKENIZE)
    counts = {} if stored is None else stored.languages
    tokenizer = records.get(TOKENIZER)
    measured = {} if tokenizer is None else tokenizer.byte_fallback
    rows = [_language(name, one, measured.get(name)) for name, one in counts.items()]
    return sorted(rows, key=lambda row: (-row["tokens"], row["language"]))


def _language(name: str, counts: LanguageTokens, byte_fallback: float | None) -> LanguageContent:
    row: LanguageContent = {
        "language": name,
        "documents": counts["documents"],
        "bytes": counts["bytes"],
        "tokens": counts["tokens"],
    }
    if "unknown" in counts:
        row["unknown"] = counts["unknown"]
    if "byte_tokens" in counts:
        row["byte_tokens"] = counts["byte_tokens"]
    if byte_fallback is not None:
        row["byte_fallback"] = byte_fallback
    return row


def _require_conservation(report: RunReport, records: Records) -> None:
    """Documents and tokens add up, or the run fails."""
    documents = report["documents"]
    if "kept" in documents:
        gone = sum(documents["dropped"].values()) + sum(documents["removed"].values())
        if documents["read"] != documents["kept"] + gone:
            raise VerificationError(
                f"documents do not add up: {documents['read']:,} read, {documents['kept']:,} kept,"
                f" {gone:,} dropped or removed; this is a bug, please report it with the log"
            )
    for name, splits in report["datasets"].items():
        made = sum(
            split["tokens"] - split["frame_tokens"] + split["tokens_cut"] for split in splits.values()
        )
        replayed = records.get(REPLAY)
        stored = records.of(TOKENIZE).tokens + (0 if replayed is None else replayed.tokens)
        stored += _mixed_tokens(records.of(SHARD, name).ledger)
        if made != stored:
            raise VerificationError(
                f"tokens of {name} do not add up: {stored:,} stored, replayed or copied, {made:,} in"
                " rows or cut; this is a bug, please report it with the log"
            )


def _mixed_tokens(flow: Flow | None) -> int:
    """Return by how many tokens a mix makes a dataset larger than the token store, or smaller."""
    if flow is None:
        return 0
    gone = flow.gone.get(MIXED, Tally())
    return sum(one.tokens or 0 for one in flow.added.values()) - (gone.tokens or 0)
