"""The summary of a run: what every step reported, added up, and refused where it does not add up."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.inputs.limited import limited_note
from pipeline.inputs.skipped import SkippedFiles
from pipeline.report.before import RepeatedText, languages_before, repeated_texts
from pipeline.report.card import render_card
from pipeline.report.counted import REPORT, Counted
from pipeline.report.evidence import evidence_of, joined_warning
from pipeline.report.fairness import fairness_of
from pipeline.report.flow import shown_place
from pipeline.report.made import made_of
from pipeline.report.mixes import mixes_in, mixes_of, packed_of, wholes_of
from pipeline.report.packing import packing_of, silent_sources
from pipeline.report.page import render_page
from pipeline.report.report import DocumentCounts, Fairness, LanguageRow, Report, RunReport, SplitTotals
from pipeline.report.shown_rows import first_rows
from pipeline.report.similarity import Similarity, similarity_of
from pipeline.report.steps import step_metrics
from pipeline.report.texts import Lengths, TextSample, lengths_of, texts_of
from pipeline.run_file.config import OWN, RunFile
from pipeline.state.commits import PLAN
from pipeline.steps.cut.step import CUT
from pipeline.steps.decontaminate.step import DECONTAMINATE
from pipeline.steps.dedup.step import DEDUP, section_loss, short_first
from pipeline.steps.draw.step import DRAW
from pipeline.steps.ingest.columns import unused_roles
from pipeline.steps.ingest.step import INGEST
from pipeline.steps.records import AuditReport
from pipeline.steps.replay.step import REPLAY
from pipeline.steps.run_folder import RunFolder
from pipeline.steps.selection import SelectionRecord, selecting
from pipeline.steps.shard.make import MIXED
from pipeline.steps.shard.step import SHARD
from pipeline.steps.split.step import SPLIT
from pipeline.steps.step import Records, Scope
from pipeline.steps.tokenize.step import TOKENIZE
from pipeline.steps.tokenizer.limits import LanguageCosts, cost_warnings
from pipeline.steps.tokenizer.step import TOKENIZER
from pipeline.steps.verify.step import VERIFY, VerdictRecord
from stages.errors import VerificationError
from stages.ledger import Flow, Tally
from stages.reading.notices import said_of_notice
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
    counted = Counted(output)
    report = summarise(
        file,
        records,
        counted,
        audited=audited,
        skipped=skipped,
        input_bytes=input_bytes,
        stopped=stopped,
    )
    remove_report(output)
    folder = output / REPORT
    folder.mkdir(exist_ok=True)
    counted.write(whole=stopped is None)
    plain = report.plain
    text = json.dumps(plain, indent=1, ensure_ascii=False)
    (folder / "report.json").write_text(text + "\n", encoding="utf-8")
    (folder / "index.html").write_text(render_page(report), encoding="utf-8")
    (folder / "card.md").write_text(render_card(report, file), encoding="utf-8")
    for name, verdict in plain["verify"].items():
        place = output / "verify" / name / "verdict.json"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(verdict, indent=1) + "\n", encoding="utf-8")
    return plain


def remove_report(output: Path) -> None:
    """Remove the report of a run that is about to change; what was counted of its files stays."""
    earlier = ("report.html", "packing.json")  # which earlier versions wrote
    for name in ("report.json", "index.html", "card.md", *earlier):
        (output / REPORT / name).unlink(missing_ok=True)


def summarise(
    file: RunFile,
    records: Records,
    counted: Counted,
    *,
    audited: AuditReport | None = None,
    skipped: Sequence[SkippedFiles] = (),
    input_bytes: int | None = None,
    stopped: str | None = None,
) -> Report:
    """Return the report of a run that has come as far as its records.

    Args are those of `write_report`; `counted` is what earlier reports counted of the run's files.

    Raises:
        VerificationError: documents or tokens do not add up.
    """
    output, found = counted.output, records.datasets(VERIFY)
    verdicts = {one.name: found[one.name] for one in file.datasets if one.name in found}
    documents, languages = _documents(file, records), _languages(records)
    datasets = {name: record.splits for name, record in records.datasets(SHARD).items()}
    _require_conservation(documents, datasets, records)
    packing = packing_of(output, datasets, counted)
    fairness = None if records.get(TOKENIZER) is None else _fairness(file, records, output)
    return Report(
        name=file.name,
        output=str(output),
        sources={s.name: {"license": s.license} for s in file.sources},
        passed=_passed(verdicts, audited, stopped),
        stopped=stopped,
        audit=audited,
        ledger={name: one.ledger for name, one in records.items() if one.ledger is not None},
        skipped={one.source: {str(why): n for why, n in one.by.items()} for one in skipped if one.by},
        documents=documents,
        tokenizer=records.get(TOKENIZER),
        warnings=(
            *filter(None, (limited_note(file, output), *(files.line for files in skipped))),
            *filter(None, _warnings(file, records)),
            *silent_sources(packing),
            *(audited.missed if audited else ()),
            *_costs(file, records, fairness),
        ),
        languages=languages,
        split=records.get(SPLIT),
        datasets=datasets,
        packing=packing,
        epochs_on_disk={name: record.splits for name, record in records.datasets(DRAW).items()},
        verify=verdicts,
        steps=step_metrics(output, records, input_bytes=input_bytes),
        mix=mixes_of(file, verdicts),
        whole=wholes_of(output, packed_of(verdicts), mixes_in(verdicts)),
        made=made_of(file, output),
        evidence=evidence_of(records, audited),
        fairness=fairness,
        **_seen_in_files(file, records, counted, anew=audited is not None),
    )


def _seen_in_files(
    file: RunFile, records: Records, counted: Counted, *, anew: bool
) -> Mapping[str, Any]:
    """Return what large files of the run show, by the fields of its report; of an audit as they are."""
    output, selections = counted.output, _selections(file, records)
    done = _fingerprints(output, records)
    cuts, stored = records.get(CUT), records.get(TOKENIZE)

    def seen(name: str, step: str, kind: object, count: Callable[[], object]) -> object:
        return counted.once(name, done.get(step), kind, count, anew=anew)

    found = {
        "texts": seen("texts", INGEST.name, TextSample | None, lambda: texts_of(output)),
    }
    if selections:
        found["similarity"] = seen(
            "similarity", DEDUP.name, Similarity | None, lambda: similarity_of(file, output)
        )
    if cuts is not None and cuts.bytes:
        found["repeated"] = seen(
            "repeated", CUT.name, tuple[RepeatedText, ...], lambda: repeated_texts(output)
        )
    if stored is not None and stored.languages:
        found["lengths"] = seen("lengths", TOKENIZE.name, Lengths | None, lambda: lengths_of(output))
        found["languages_before"] = seen(
            "languages_before", INGEST.name, dict[str, int] | None, lambda: languages_before(output)
        )
    verified = {
        name: {split: one.fingerprint for split, one in record.splits.items()}
        for name, record in records.datasets(SHARD).items()
        if name in records.datasets(VERIFY)
    }
    if verified:
        found["rows"] = first_rows(output, verified, counted, anew=anew)
    return found


def _fingerprints(output: Path, records: Records) -> dict[str, str]:
    """Return the fingerprints of the steps that are whole, by their names in the plan."""
    if not (output / PLAN).exists():
        return {}
    done = dict(records.items())
    return {name: one.fingerprint for name, one in RunFolder(output).plan.steps.items() if name in done}


def _passed(
    verdicts: Mapping[str, VerdictRecord], audited: AuditReport | None, stopped: str | None
) -> bool | None:
    """Say whether nothing was found to be wrong; None while that is not known."""
    sound = audited is None or not audited.findings
    if stopped is not None:
        return None if sound else False
    return sound and all(verdict.passed for verdict in verdicts.values()) if verdicts else None


def _fairness(file: RunFile, records: Records, output: Path) -> Fairness | None:
    """Return what the languages of the token store, or of the kept documents, take for the same text."""
    selections = _selections(file, records)
    stored = [row.language for row in _languages(records)]
    return fairness_of(output, stored or (list(selections[-1].languages) if selections else []))


def _costs(file: RunFile, records: Records, fairness: Fairness | None) -> Iterable[str]:
    """Return what languages cost, of what was not told as it was measured."""
    if records.get(TOKENIZER) is None:
        return ()
    train = file.tokenizer.train if file.tokenizer.path is None else None
    rates = {} if fairness is None or train is not None else fairness.languages
    costs = LanguageCosts(
        train=train,
        text="encoded",
        byte_fallback={
            row.language: row.byte_tokens / max(row.tokens, 1)
            for row in _languages(records)
            if row.byte_tokens is not None and row.byte_fallback is None
        },
        parity={name: own[OWN]["parity"] for name, own in rates.items()},
        reference="" if fairness is None else fairness.reference,
    )
    return cost_warnings(costs, file.tokenizer.limits)


def _warnings(file: RunFile, records: Records) -> Iterator[str | None]:
    """Yield what settings and the tokenizer cost."""
    yield unused_roles(Scope(file))
    yield section_loss(Scope(file))
    yield short_first(Scope(file))
    yield _nothing_held_out(file, records)
    languages = _languages(records)
    tokens = sum(row.tokens for row in languages)
    yield joined_warning(records.get(SPLIT), tokens)
    yield from (warning for _, record in records.items() for warning in record.warnings)
    if file.tokenizer.path is None:
        yield normalization_loss(file.tokenizer.train.normalization)
        return
    tokenizer = records.get(TOKENIZER)
    yield None if tokenizer is None else tokenizer.warning
    unknown = {row.language: row.unknown for row in languages if row.unknown}
    if unknown:
        shares = {row.language: unknown.get(row.language, 0) / max(row.tokens, 1) for row in languages}
        worst, total = max(shares, key=lambda name: shares[name]), sum(unknown.values())
        yield (
            f"tokenizer: {total:,} tokens are unknown, {total / tokens:.2%} of all, and in"
            f" {worst} {shares[worst]:.2%}: it has no piece for these"
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


def _documents(file: RunFile, records: Records) -> DocumentCounts:
    ingest = records.get(INGEST)
    if ingest is None:  # the run did no more than scan
        return DocumentCounts(read=0, dropped={}, named_drops=(), cleaned=0, text_bytes=0)
    splits = {source.name: source.text_split for source in file.sources}
    selections, found, cuts = _selections(file, records), records.get(DECONTAMINATE), records.get(CUT)
    dedup = records.get(DEDUP) if file.dedup.exact else None
    return DocumentCounts(
        read=ingest.read,
        dropped=ingest.drops,
        named_drops=tuple(shown_place(line, splits) for line in ingest.named),
        cleaned=ingest.cleaned,
        text_bytes=sum(unit.text_bytes for unit in ingest.units),
        changed=ingest.changes,
        noticed={
            source: {said_of_notice(name): number for name, number in counts.items()}
            for source, counts in ingest.noticed.items()
        },
        samples=tuple(
            sample.model_copy(update={"place": shown_place(sample.place, splits)})
            for sample in ingest.samples
        ),
        evaluation_sets=None if found is None else found.sets,
        removed={why: n for one in selections for why, n in one.removed.items()} if selections else None,
        kept=selections[-1].kept if selections else None,
        removed_by_source=None if dedup is None else dedup.sources,
        clusters=None if dedup is None else dedup.largest,
        cut_bytes=None if cuts is None else cuts.bytes,
        cut_documents=None if cuts is None else cuts.documents,
    )


def _selections(file: RunFile, records: Records) -> list[SelectionRecord]:
    """Return the records of the steps that decide what is kept, as far as they are done."""
    done = dict(records.items())
    found = (done.get(name) for name in selecting(file))
    return [record for record in found if isinstance(record, SelectionRecord)]


def _languages(records: Records) -> tuple[LanguageRow, ...]:
    """Return documents, bytes and tokens by language, most tokens first."""
    stored, tokenizer = records.get(TOKENIZE), records.get(TOKENIZER)
    measured = {} if tokenizer is None else tokenizer.byte_fallback
    rows = [
        LanguageRow(language=name, **counts, byte_fallback=measured.get(name))
        for name, counts in ({} if stored is None else stored.languages).items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.tokens, row.language)))


def _require_conservation(
    documents: DocumentCounts, datasets: Mapping[str, SplitTotals], records: Records
) -> None:
    """Documents and tokens add up, or the run fails."""
    if documents.kept is not None:
        gone = sum(documents.dropped.values()) + sum((documents.removed or {}).values())
        if documents.read != documents.kept + gone:
            raise VerificationError(
                f"documents do not add up: {documents.read:,} read, {documents.kept:,} kept,"
                f" {gone:,} dropped or removed; this is a bug, please report it with the log"
            )
    for name, splits in datasets.items():
        made = sum(split.tokens - split.frame_tokens + split.tokens_cut for split in splits.values())
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
