"""A combination's runs, each done and counted by hand: it, a generation of it, one that replays it."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipeline.run_file.config import RunFile
from pipeline.session.request import RunRequest
from pipeline.session.session import run_session
from stages.errors import DataError
from stages.loading.grown import open_dataset
from tests.conftest import digests
from tests.laws.combinations import DEDUPS, FAULTY, LISTS, Combination, texts
from tests.laws.counted_by_hand import (
    Known,
    Outcome,
    books_of,
    chain_of,
    check_duplicates,
    check_ledger,
    check_records,
    ids_of,
    outcome_of,
)
from tests.laws.mixed_by_hand import check_order, copies_by_hand, held_out_of
from tests.laws.rows_by_hand import (
    Encoding,
    Wanted,
    check_books_of_rows,
    check_kept,
    check_rows,
    check_store,
)
from tests.laws.run_contents import REPLAYED, laid_out, replaying, run_content
from tests.laws.shapes import faults_of, record_of
from tests.laws.small_tokenizers import TOKENIZERS
from tests.laws.written_records import write_source

if TYPE_CHECKING:
    from tests.laws.given_records import Fault, Given

MIN_CHARS = 3
LATER = 500
"""The number of the first record that a later run reads, and of the first file that it is in."""
PARALLEL = "parallel"
"""A folder of a sentence that tokenizers are measured on, not on 62 languages: a sixth of the time."""
_FOLDERS = ("ingest", "dedup", "tokens", "datasets", "ledger", "commits", "mix")
"""What a generation leaves as it is."""


class Checked(NamedTuple):
    """What was seen in the runs of a combination."""

    outcomes: list[Outcome]
    """Of every record."""
    then: list[str]
    """What became of the run when it was done: "grown", "replayed"."""


def check(chosen: Combination, files: Path, base: Path) -> Checked:
    """Do the runs of a combination and count everything by hand.

    Args:
        chosen: the combination.
        files: folder of all tokenizers.
        base: an empty folder.
    """
    for name, content in LISTS.items():
        (base / name).write_text(content)
    (base / PARALLEL).mkdir()
    for language, text in (("en", "All are born free.\n"), ("de", "Alle sind frei geboren.\n")):
        (base / PARALLEL / f"{language}.txt").write_text(text)
    tokenizer = files / TOKENIZERS[chosen.tokenizer].file
    outcomes = write_inputs(chosen, base)
    part = Part(chosen, tokenizer, base / "run", tuple(outcomes), chosen.seed)
    first = check_run(part, _request(chosen, tokenizer, base / "run"))
    known, then = [] if first is None else [first], list[str]()
    unfinished = False
    if known and "grown" in chosen.then:
        known += check_growth(part, known)
        then += ["grown"] * (len(known) > 1)
        unfinished = len(known) == 1  # of its records none is left; who replays it is told to finish it
    if known and "replayed" in chosen.then and not unfinished:
        second = replaying(chosen)
        own = tuple(write_inputs(second, base))
        part = Part(second, tokenizer, base / "again", own, second.seed, tuple(known), chosen)
        done = check_run(part, _request(second, tokenizer, base / "again"))
        then += ["replayed"] * (done is not None)
        outcomes += own
    return Checked(outcomes, then)


@dataclass(frozen=True)
class Part:
    """A run, or a generation of one."""

    chosen: Combination
    tokenizer: Path
    run: Path
    outcomes: tuple[Outcome, ...]
    """What becomes of each record that it reads."""
    seed: int
    before: tuple[Known, ...] = ()
    """Runs that it is compared with."""
    replayed: Combination | None = None
    """The combination that they are of, if it takes their documents."""


def write_inputs(chosen: Combination, base: Path, *, later: bool = False) -> list[Outcome]:
    """Write the sources of a combination, or what comes later; return what becomes of each record."""
    outcomes, number = [], LATER if later or chosen.replays else 0
    for source, own in chosen.named:
        records: list[Given | Fault] = []
        for which in own.more if later else own.records:
            if which < 0:
                records.append(faults_of(own.form, own.shape)[FAULTY - which])
                continue
            number += 1
            records.append(record_of(number, texts()[which], which, own.shape, own.learned))
        begin, folder = LATER if later else 0, base / source
        written = write_source(folder, own.form, own.ending, records, cut=own.cut, begin=begin)
        chain = chain_of(chosen, source, base)
        outcomes += [outcome_of(one, chain, min_chars=MIN_CHARS) for one in written]
    return outcomes


def _request(chosen: Combination, tokenizer: Path, output: Path) -> RunRequest:
    content = run_content(chosen)
    known = {"path": str(tokenizer), "fairness": {"parallel": PARALLEL}}
    file = RunFile.model_validate({**content, "tokenizer": known})
    return RunRequest(file, output.parent, output, 0)


def check_run(part: Part, request: RunRequest) -> Known | None:
    """Do a run and count everything in it; return None if all of its records are gone."""
    if all(one.reason is not None for one in part.outcomes):
        with pytest.raises(DataError, match=r"no document is left|hold no record"):
            run_session(request, stream=None)
        return None
    report: Any = run_session(request, stream=None)
    assert report["passed"]
    run, dedup = part.run, DEDUPS[part.chosen.dedup]
    exact, near = (dedup.get(name, True) for name in ("exact", "near"))
    documents = check_records(run, part.outcomes)
    left = check_duplicates(run, documents, part.before, exact=exact, near=near)
    check_ledger(run, part.outcomes, documents, left)
    encoding = Encoding(part.chosen, part.tokenizer)
    wanted: Wanted = {one.id.hex(): encoding.expected(one) for one in left}
    check_store(run, wanted)
    borrowed = check_replayed(part) if part.replayed is not None else {}
    check_kept(run, wanted, borrowed)
    check_datasets(part, left, {**wanted, **borrowed}, encoding)
    for path in sorted((run / "ledger").glob("*.parquet")):
        books_of(run, path.stem)
    held_out = {
        name for number in range(len(part.chosen.datasets)) for name in held_out_of(run, f"d{number}")
    }
    assert held_out <= wanted.keys(), "no replayed document is held out"
    return Known(run, documents, left, held_out)


def check_datasets(part: Part, left: Sequence[Outcome], wanted: Wanted, encoding: Encoding) -> None:
    """Hold the rows of all datasets of a run, and their books, to what is left and what is replayed."""
    taken = [one for known in part.before for one in known.trained] if part.replayed else []
    borrowed = {one.id.hex(): REPLAYED for one in taken}
    lengths = {name: len(one.ids) for name, one in wanted.items()}
    for number, ((form, _), _, exact) in enumerate(laid_out(part.chosen)):
        name = f"d{number}"
        folder, every = part.run / "datasets" / name, [*left, *taken]
        copies = copies_by_hand(part.run, name, every, lengths, seed=part.seed, borrowed=borrowed)
        tokens = check_rows(folder, wanted, encoding.frame, form=form, copies=copies)
        check_books_of_rows(part.run, name, wanted, tokens, copies)
        check_order(folder, exact=exact)


def check_replayed(part: Part) -> Wanted:
    """Hold the books of a replay to the training documents of the other run; return those documents."""
    assert part.replayed is not None
    every = [one for known in part.before for one in known.left]
    taken = [one for known in part.before for one in known.trained]
    encoding = Encoding(part.replayed, part.tokenizer)
    wanted = {one.id.hex(): encoding.expected(one) for one in every}
    books = books_of(part.run, "replay")
    rest = [one for one in every if one not in taken]
    for side, listed in (
        (books.input, every),
        (books.output, taken),
        (books.gone.get("held_out", Counter()), rest),
    ):
        assert side["documents"] == len(listed)
        assert side["ids"] % (1 << 128) == ids_of(listed)
        assert side["tokens"] == sum(len(wanted[one.id.hex()].ids) for one in listed)
    assert books.gone.keys() <= {"held_out"}
    return {one.id.hex(): wanted[one.id.hex()] for one in taken}


def check_growth(part: Part, known: Sequence[Known]) -> list[Known]:
    """Add files to a finished run and count the generation; nothing of the run itself may change."""
    before = digests(part.run, *_FOLDERS)
    base = part.run.parent
    outcomes = tuple(write_inputs(part.chosen, base, later=True))
    digest = hashlib.sha256(f"{part.seed} generation 1".encode()).digest()
    seed = int.from_bytes(digest[:8], "big") >> 1
    run = part.run / "generations" / "0001"
    grown = replace(part, run=run, outcomes=outcomes, seed=seed, before=tuple(known))
    found = check_run(grown, _request(part.chosen, part.tokenizer, part.run))
    assert digests(part.run, *_FOLDERS) == before, "nothing of the run changes"
    if found is None:
        return []
    check_sides(known[0], found)
    for number in range(len(part.chosen.datasets)):
        check_joined(part.run, run, f"d{number}")
    return [found]


def check_sides(old: Known, new: Known) -> None:
    """Hold new documents to the side of the split on which the old ones of their clusters are."""
    sides = {one.id.hex(): one.id.hex() in old.held_out for one in old.left}
    for row in pq.read_table(new.run / "dedup/clusters.parquet").to_pylist():
        if row["kept"] and sides.get(row["cluster"], False):
            assert row["id"] in new.held_out


def check_joined(run: Path, later: Path, name: str) -> None:
    """Hold what a trainer reads of a grown dataset to the rows of both of its generations."""
    for split in ("train", "validation"):
        folders = [one / "datasets" / name for one in (run, later)]
        there = [folder for folder in folders if (folder / split / "dataset.json").exists()]
        if folders[0] not in there:  # a split of a later generation alone is read from its own folder
            continue
        whole = open_dataset(folders[0], split=split, shuffle=False)
        parts = [open_dataset(one, split=split, generations=1, shuffle=False) for one in there]
        assert len(whole) == sum(map(len, parts))
        found = [one.batch(np.arange(len(one)))["input_ids"] for one in (whole, *parts) if len(one)]
        assert not found or np.array_equal(found[0], np.concatenate(found[1:]))
