"""The mix of each dataset in a report: promised against packed, stages, generations.

record of verify    ->  the report's mix  ->  tables, for the page and for the terminal
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from pipeline.planning.generations import number_of
from pipeline.report.plain import TextTable
from pipeline.report.report import Report, ReportedMix, StageShares, WholeDataset, WholeSource
from pipeline.run_file.config import RunFile
from pipeline.steps.run_folder import RunFolder
from pipeline.steps.verify.step import VERIFY, VerdictRecord
from stages.errors import FormatError
from stages.mixing.audit import add_classes
from stages.mixing.audited import AuditedSource, MixAudit, PackedClass

TRAIN = "train"
"""The split that a mix is of."""
PackedClasses = tuple[PackedClass, ...]
NO_MIXES: Mapping[str, MixAudit] = {}


def mixes_of(file: RunFile, verdicts: Mapping[str, VerdictRecord]) -> dict[str, ReportedMix]:
    """Return what is known of the mix of each dataset that has one.

    Args:
        file: the run file.
        verdicts: by dataset, as far as they were verified.
    """
    found = {}
    for name, mix in mixes_in(verdicts).items():
        chain = _stages_before(file, name)
        known = len(chain) > 1 and all(one in verdicts for one in chain)
        stages = tuple(_stages({one: verdicts[one] for one in chain})) if known else ()
        found[name] = ReportedMix(**dict(mix), stages=stages)
    return found


def _stages_before(file: RunFile, name: str) -> list[str]:
    """Return the names of the stages up to a dataset, the first one first."""
    after = {one.name: one.mix.after if one.mix else None for one in file.datasets}
    chain, before = [name], after[name]
    while before is not None:
        chain.append(before)
        before = after[before]
    return chain[::-1]


def _stages(verdicts: Mapping[str, VerdictRecord]) -> Iterator[StageShares]:
    """Yield what each stage has of each source, and how often documents were taken up to it."""
    taken: dict[str, int] = {}
    available = _available(verdicts.values())
    for name, verdict in verdicts.items():
        packed = verdict.packed.get(TRAIN, ())
        total = sum(one.tokens for one in packed)
        tokens = dict.fromkeys(available, 0)
        for one in packed:
            tokens[one.source] = tokens.get(one.source, 0) + one.tokens
            taken[one.source] = taken.get(one.source, 0) + one.documents
        yield StageShares(
            dataset=name,
            tokens=total,
            shares={source: own / max(total, 1) for source, own in tokens.items()},
            seen={
                source: taken.get(source, 0) / documents if documents else 0.0
                for source, documents in available.items()
            },
        )


def _available(verdicts: Iterable[VerdictRecord]) -> dict[str, int]:
    """Return the training documents of each source, which all stages share."""
    for verdict in verdicts:
        if verdict.mix is not None:
            return {one.source: one.available_documents for one in verdict.mix.sources}
    return {}


def wholes_of(
    output: Path, packed: Mapping[str, PackedClasses], mixes: Mapping[str, MixAudit] = NO_MIXES
) -> dict[str, WholeDataset]:
    """Return each dataset over all generations up to one; nothing for a run without earlier ones.

    Args:
        output: folder of the generation.
        packed: what the rows of each of its datasets hold.
        mixes: of its datasets, of those that have one.
    """
    number = number_of(output)
    if not number:
        return {}
    first = output.parent.parent
    earlier = [first, *(path for path in sorted(output.parent.iterdir()) if _is_before(path, number))]
    return add_generations([*(packed_of(verdicts_in(folder)) for folder in earlier), packed], mixes)


def _is_before(path: Path, number: int) -> bool:
    return path.name.isdecimal() and int(path.name) < number


def add_generations(
    parts: Sequence[Mapping[str, PackedClasses]], mixes: Mapping[str, MixAudit] = NO_MIXES
) -> dict[str, WholeDataset]:
    """Return each dataset over all generations that were verified.

    Args:
        parts: what the rows of each dataset hold, by generation.
        mixes: of the last generation, by dataset.
    """
    found = {}
    for name in dict.fromkeys(name for part in parts for name in part):
        own = [part[name] for part in parts if name in part]
        classes = add_classes(own)
        total = sum(one.tokens for one in classes)
        last = {one.source: one for one in mixes[name].sources} if name in mixes else {}
        sources = sorted({one.source for one in classes})
        found[name] = WholeDataset(
            generations=len(own),
            documents=sum(one.documents for one in classes),
            tokens=total,
            sources={
                source: _whole_source(
                    [one for one in classes if one.source == source], total, last.get(source)
                )
                for source in dict.fromkeys((*sources, *last))
            },
        )
    return found


def _whole_source(classes: Sequence[PackedClass], total: int, last: AuditedSource | None) -> WholeSource:
    """Return what all generations have of a source, and what was asked of it and is in the last one."""
    tokens = sum(one.tokens for one in classes)
    return WholeSource(
        documents=sum(one.documents for one in classes),
        tokens=tokens,
        share=tokens / max(total, 1),
        share_last=None if last is None else last.share,
        left_out=None if last is None else last.left_out,
        share_asked=None if last is None else last.share_asked,
    )


def mixes_in(verdicts: Mapping[str, VerdictRecord]) -> dict[str, MixAudit]:
    """Return the audited mix of each dataset that has one."""
    return {name: one.mix for name, one in verdicts.items() if one.mix is not None}


def verdicts_in(folder: Path) -> dict[str, VerdictRecord]:
    """Return the verdicts of the datasets of a run, as far as they were verified."""
    commits, begin = RunFolder(folder).commits, f"{VERIFY.name}-"
    found = {}
    for step in commits.steps():
        if not step.startswith(begin):
            continue
        try:
            whole = commits.whole(step)
            if whole is not None:
                found[step.removeprefix(begin)] = whole.read(VerdictRecord)
        except FormatError:  # `verify` names it
            continue
    return found


def packed_of(verdicts: Mapping[str, VerdictRecord]) -> dict[str, PackedClasses]:
    """Return what the training rows of each dataset hold, where they were counted."""
    return {name: one.packed[TRAIN] for name, one in verdicts.items() if TRAIN in one.packed}


def shares_table(mix: MixAudit) -> TextTable:
    """Return each source: what was asked, what is packed, how far it is off."""
    headings = ("source", "asked", "tokens in rows", "share", "points off", "documents", "epochs")
    rows = []
    for one in mix.sources:
        asked, epochs = one.share_asked, one.epochs_asked
        wanted = asked if one.share_planned is None else one.share_planned
        off = "" if wanted is None or asked is None else f"{(one.share - wanted) * 100:+.3f}"
        rows.append(
            (
                one.source,
                f"epochs {epochs:g}" if asked is None else f"{asked:.2%}",
                f"{one.tokens:,}",
                f"{one.share:.2%}",
                off,
                f"{one.documents:,}",
                f"{one.epochs:.3f}",
                f"{one.max_epochs:g}",
                f"{one.available_documents:,}",
                f"{one.available_tokens:,}",
            )
        )
    last = ("at most", "available documents", "available tokens")
    return TextTable((*headings, *last), rows)


def mixed_languages_table(mix: MixAudit, most: int) -> TextTable:
    """Return each language before the mix and after it.

    Args:
        mix: of a dataset.
        most: languages.
    """
    rows = [
        (
            one.language,
            f"{one.available_tokens:,}",
            f"{one.share_available:.2%}",
            f"{one.tokens:,}",
            f"{one.share:.2%}",
            f"{one.documents:,}",
            f"{one.tokens / one.available_tokens:.3f}" if one.available_tokens else "",
        )
        for one in mix.languages[:most]
    ]
    headings = ("language", "before", "share before", "in rows", "share", "documents", "times")
    return TextTable(headings, rows, max(len(mix.languages) - most, 0))


def windows_table(mix: MixAudit) -> TextTable | None:
    """Return how far windows are off, by source, in points; None if none were looked at."""
    windows = mix.windows
    if windows is None:
        return None
    rows = [
        (
            one.source,
            f"{one.share:.2%}",
            f"{one.sigma * 100:.3f}",
            f"{one.deviation * 100:.3f}",
            f"{one.bound * 100:.3f}",
            f"{one.beyond_sigmas:,}",
        )
        for one in windows.sources
    ]
    headings = ("source", "share", "sigma", "farthest off", "bound", "beyond 4 sigma")
    return TextTable(headings, rows)


def stages_table(mix: ReportedMix) -> TextTable | None:
    """Return the stages side by side: the share of each source, and how often it was seen so far."""
    if not mix.stages:
        return None
    headings = ["source"]
    for stage in mix.stages:
        headings += [f"{stage.dataset}: share", "seen so far"]
    rows = [
        (
            name,
            *(
                cell
                for stage in mix.stages
                for cell in (f"{stage.shares.get(name, 0):.2%}", f"{stage.seen.get(name, 0):.3f}")
            ),
        )
        for name in mix.stages[-1].shares
    ]
    last = ("tokens", *(cell for stage in mix.stages for cell in (f"{stage.tokens:,}", "")))
    return TextTable(headings, [*rows, last])


def mix_lines(report: Report) -> Iterator[str]:
    """Yield a line for the mix of each dataset, and for each dataset over all generations."""
    yield from (mix_line(name, mix) for name, mix in report.mix.items())
    yield from (whole_line(name, whole) for name, whole in report.whole.items())


def mix_line(name: str, mix: MixAudit) -> str:
    """Return the mix of a dataset in a line."""
    shares = ", ".join(f"{one.source} {_share_line(one.share, one.share_asked)}" for one in mix.sources)
    line = f"mix of {name}: {shares}; {mix.tokens:,} tokens"
    if mix.total_asked is not None:
        line += f" (asked {mix.total_asked:,})"
    windows = mix.windows
    if windows is not None and windows.sources:
        most = max(one.deviation for one in windows.sources)
        line += f"; windows of {windows.size:,} rows at most {most * 100:.2f} points off"
    failed = [gate.name for gate in mix.gates if not gate.passed]
    return f"{line}; FAIL: {', '.join(failed)}" if failed else line


def _share_line(share: float, asked: float | None) -> str:
    return f"{share:.2%}" if asked is None else f"{share:.2%} (asked {asked:.2%})"


def whole_line(name: str, whole: WholeDataset) -> str:
    """Return a dataset over all its generations in a line."""
    shares = ", ".join(f"{source} {_share_of_whole(own)}" for source, own in whole.sources.items())
    generations = f"{whole.generations:,} generation{'s' if whole.generations != 1 else ''}"
    return f"{name} over {generations}: {shares}; {whole.tokens:,} tokens"


def _share_of_whole(own: WholeSource) -> str:
    """Return the share of a source over all generations, what was asked, and that of the last one."""
    said = [] if own.share_asked is None else [f"asked {own.share_asked:.2%}"]
    if own.share_last is not None:
        said.append(f"{own.share_last:.2%} of the last")
    if own.left_out is not None:
        said.append(f"{own.left_out:,} of its documents left out")
    return f"{own.share:.2%}" + f" ({', '.join(said)})" * bool(said)
