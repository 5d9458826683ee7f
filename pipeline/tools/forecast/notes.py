"""Notes of a forecast: what a sample cannot tell, and why the run itself may stop.

Fields of a sample: those that documents are compared or ranked by, and of which it has no value.

The run refuses a field that no document has. A sample may only have missed it, so its run goes without.

Roles of a sample: those that are learned and of which no turn was drawn.

The run refuses a role that no turn has. A sample may only have missed it, so its run learns others.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import orjson

from pipeline.run_file.config import RunFile
from pipeline.run_file.deduplication import Dedup
from pipeline.run_file.source import Source
from pipeline.steps.ingest.unreadable import MIN_RECORDS
from pipeline.tools.forecast.sample import InputSample
from stages.chat.table import TEMPLATES
from stages.dedup.keys import key_text
from stages.dedup.ranking import KeepColumn, rank_value

BYTES_A_PIECE = 128
"""Text that is taken for each piece of a trained vocabulary: of less, so many may not be found."""
_MORE = 1.5
"""Times the share that was asked for: of more it is said why so much is read."""
_FEW = 0.5
"""Documents of a source that would stay: of fewer, the one that is used counts for too many."""


def sample_notes(sample: InputSample, run: RunFile, *, share: float) -> list[str]:
    """Return what the sample cannot tell, and whether the run would stop at what was read.

    Args:
        sample: what was drawn.
        run: what it is of.
        share: of the bytes of the inputs that was asked for.
    """
    return [
        "tokens are an upper bound: only duplicates within the sample are taken off",
        "the learning check is not run on the sample, because it takes minutes; its memory is counted",
        "memory is for one node, if all its workers need the most memory at the same time",
        *_read_notes(sample, share),
        *_source_notes(sample),
        *_unreadable_notes(sample, run.ingest.max_bad_fraction),
    ]


def _read_notes(sample: InputSample, share: float) -> Iterator[str]:
    if sample.read < sample.stored:
        yield (
            f"{sample.opened:,} of {sample.files:,} files are read, some records of each:"
            " other files, or what comes later, may have other languages, or longer or shorter documents"
        )
    read, taken = sample.read / sample.stored, sample.taken / sample.stored
    if read > _MORE * share:
        yield (
            f"{read:.2%} of the bytes are read, more than --sample {share}: of each source at least"
            " one file is read, and of a file at least 1 MiB"
        )
    if read > _MORE * taken:
        yield (
            f"of the {read:.2%} of the bytes that are read, documents for {taken:.2%} are used, so that"
            " all sources and files count alike; a larger --sample uses more"
        )


def _source_notes(sample: InputSample) -> Iterator[str]:
    for part in sample.parts:
        if not part.documents:
            why = "all of it was read" if part.whole else "a larger --sample may find one"
            yield f"no document was drawn of source {part.name}: {why}"
        elif part.expected < _FEW:
            yield (
                f"source {part.name} is too small for this sample: one document of it is used, so"
                f" what is counted of it is {1 / part.expected:,.0f} times too much; a larger --sample"
                " says more"
            )


def _unreadable_notes(sample: InputSample, bound: float) -> Iterator[str]:
    """Say that the run would stop: at all records, or before that at those of the first sources."""
    read = bad = 0.0
    for part in sample.parts:
        read, bad = read + part.documents + part.unreadable, bad + part.unreadable
        last = part is sample.parts[-1]
        if bad > bound * read and (last or read * sample.times >= MIN_RECORDS):
            of = "" if last else f" up to those of source {part.name}, in the order of names,"
            yield (
                f"the run would stop: {bad / read:.2%} of the records{of} are unreadable in the sample,"
                f" more than ingest.max_bad_fraction = {bound}; repair the files, check the source's"
                " text_column, or set ingest.max_bad_fraction higher"
            )
            return


def vocabulary_note(
    sample: InputSample, run: RunFile, *, pieces: int, most: int | None, text: int
) -> str:
    """Say that a sample was too small for the vocabulary that is asked for, and what the run may do.

    Args:
        sample: what was drawn.
        run: what it is of.
        pieces: that the sample's tokenizer has.
        most: that its text gives, if that is known.
        text: bytes that the run keeps, about.
    """
    wanted = run.tokenizer.train.vocab_size
    said = (
        f"the sample is too small to train {wanted:,} pieces: its tokenizer has {pieces:,}, so there"
        " will be fewer tokens; a larger --sample says more"
    )
    trained, enough = min(text, int(run.tokenizer.train.sample_size)), wanted * BYTES_A_PIECE
    if most is not None and wanted > most * sample.times:
        said += (
            f". The run would be refused: the sample's text gives at most {most:,} pieces, so all of it"
            f" gives no more than about {most * sample.times:,.0f}; lower tokenizer.train.vocab_size"
        )
    elif trained < enough:
        said += (
            f". The run may be refused once all is read: it trains on about {trained:,} bytes of text,"
            f" and less than {enough:,} may not give so many pieces; --sample 1 tells, or lower"
            " tokenizer.train.vocab_size"
        )
    return said


def drawn_fields(run: RunFile, sources: Sequence[Source]) -> tuple[RunFile, list[str]]:
    """Return the run with fields alone that its sample has, and a note for each that it has not.

    Args:
        run: what the sample is of.
        sources: of the sample, each a file of JSON lines.
    """
    dedup = run.dedup
    absent = set(dedup.columns)
    for source in sources if absent else ():
        with Path(source.paths[0]).open("rb") as lines:
            for line in lines:
                record = orjson.loads(line)
                absent -= {name for name in absent if _usable(record.get(name), name, dedup)}
                if not absent:
                    break
    notes = [
        f"dedup names the field {name!r}: no document of the sample has a usable value there, so nothing"
        " is compared or ranked by it here. If no document of all has one, the run is refused"
        for name in dedup.columns
        if name in absent
    ]
    ranks = isinstance(dedup.keep, KeepColumn) and dedup.keep.column in absent
    changed = {
        "url": None if dedup.url in absent else dedup.url,
        "keys": tuple(name for name in dedup.keys if name not in absent),
        "keep": "first" if ranks else dedup.keep,
    }
    return run.model_copy(update={"dedup": dedup.model_copy(update=changed)}) if notes else run, notes


def _usable(value: object, name: str, dedup: Dedup) -> bool:
    if name in dedup.value_columns:
        return key_text(value) is not None
    return not math.isnan(rank_value(value))


def drawn_roles(sources: Sequence[Source]) -> tuple[tuple[Source, ...], list[str]]:
    """Return the sources of a sample with roles that it has, and a note for each that it has not.

    Args:
        sources: of the sample, each a file of JSON lines.
    """
    found, notes = [], list[str]()
    for source in sources:
        roles = _roles(source)
        absent = list(_absent(source, roles))
        if absent:
            found.append(_learning(source, absent, roles))
            there = ", ".join(name for name, _ in roles.most_common())
            notes += [
                f"sources.{source.name}.chat.learn: no turn of the sample is of role {role!r}; roles"
                f" there: {there}. If no turn of the whole source is, the run is refused"
                for role in absent
            ]
        else:
            found.append(source)
    return tuple(found), notes


def _absent(source: Source, roles: Counter[str]) -> Iterator[str]:
    if source.chat is not None and source.chat.template in TEMPLATES and roles:
        yield from (role for role in source.chat.learn if not roles[role])


def _learning(source: Source, absent: Sequence[str], roles: Counter[str]) -> Source:
    """Return a source that learns the roles it has of those asked for, or else the commonest role."""
    assert source.chat is not None, "has roles"
    learn = tuple(role for role in source.chat.learn if role not in absent)
    chat = source.chat.model_copy(update={"learn": learn or (roles.most_common(1)[0][0],)})
    return source.model_copy(update={"chat": chat})


def _roles(source: Source) -> Counter[str]:
    """Return the turns of a source by role, of dialogues that say something."""
    roles = Counter[str]()
    if source.chat is None:
        return roles
    with Path(source.paths[0]).open("rb") as lines:
        for line in lines:
            turns = orjson.loads(line)[source.chat.column]
            if any(turn["content"].strip() for turn in turns):
                roles.update(turn["role"] for turn in turns)
    return roles
