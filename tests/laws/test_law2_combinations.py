"""What law 2 promises of every combination of reader, shape, filter, framing, packing and kind.

Every record that was written is a document or a drop with its reason; every token of a document that
stays is in the rows of every dataset once and in order; every step's books balance. All of it is counted
from the files of real runs, by hand. Every pair of values meets in one of the runs.

SHARDMILL_CAMPAIGN=full draws hundreds more combinations.
"""

import os
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.run_file.config import RunFile
from pipeline.session.session import RunRequest, run_session
from stages.cleaning.text import clean_text
from stages.errors import DataError
from stages.filtering.table import FILTERS as ALL_FILTERS
from stages.objectives.table import KINDS
from stages.reading.decompress import COMPRESSIONS
from stages.reading.table import ENDINGS, READERS, endings_of
from tests.laws.combinations import (
    DEDUPS,
    FAULTY,
    FILTERS,
    FORMS,
    LISTS,
    ChosenSource,
    Combination,
    draw,
    run_content,
    texts,
)
from tests.laws.counted_by_hand import (
    Outcome,
    books_of,
    chain_of,
    check_duplicates,
    check_ledger,
    check_records,
    outcome_of,
    rows_below,
)
from tests.laws.covering import all_pairs, alone_values, covering, pairs_of, values_of
from tests.laws.given_records import Fault, Given, Written
from tests.laws.mixed_by_hand import copies_by_hand
from tests.laws.rows_by_hand import (
    Encoding,
    Wanted,
    check_books_of_rows,
    check_kept,
    check_rows,
    check_store,
)
from tests.laws.shapes import faults_of, record_of
from tests.laws.small_tokenizers import TOKENIZERS
from tests.laws.written_records import COMPRESS, FORMATS, write_source

SHARES = 6
"""Tests in which the runs are done that cover all pairs."""
REFUSED = ("JSON list", "Parquet", "Arrow file", "Arrow stream")
"""Formats of which a file that is cut is refused."""
EXAMPLES = 300 if os.environ.get("SHARDMILL_CAMPAIGN") == "full" else 4
MIN_CHARS = 3


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of all tokenizers."""
    folder = tmp_path_factory.mktemp("tokenizers")
    for known in TOKENIZERS.values():
        (folder / known.file).write_bytes(known.make())
    return folder


def write_inputs(chosen: Combination, base: Path) -> list[Outcome]:
    """Write the sources of a combination; return what must become of each record."""
    for name, content in LISTS.items():
        (base / name).write_text(content)
    outcomes, number = [], 0
    for source, own in chosen.named:
        records: list[Given | Fault] = []
        for which in own.records:
            if which < 0:
                records.append(faults_of(own.form, own.shape)[FAULTY - which])
                continue
            number += 1
            records.append(record_of(number, texts()[which], which, own.shape, own.learned))
        written = write_source(base / source, own.form, own.ending, records, cut=own.cut)
        chain = chain_of(chosen, source, base)
        outcomes += [outcome_of(one, chain, min_chars=MIN_CHARS) for one in written]
    return outcomes


def check(chosen: Combination, files: Path, base: Path) -> list[Outcome]:
    """Do the run of a combination and count everything by hand; return what became of each record."""
    outcomes = write_inputs(chosen, base)
    known = TOKENIZERS[chosen.tokenizer]
    content = run_content(chosen)
    file = RunFile.model_validate({**content, "tokenizer": {"path": str(files / known.file)}})
    request = RunRequest(file, base, base / "run", 0)
    if all(one.reason is not None for one in outcomes):
        with pytest.raises(DataError, match=r"no document is left of|hold no record"):
            run_session(request, stream=None)
        return outcomes
    report: Any = run_session(request, stream=None)
    run = base / "run"
    documents = check_records(run, outcomes)
    dedup = DEDUPS[chosen.dedup]
    left = check_duplicates(run, documents, exact=dedup.get("exact", True), near=dedup.get("near", True))
    check_ledger(run, outcomes, documents, left)
    encoding = Encoding(chosen, files / known.file)
    wanted: Wanted = {one.id.hex(): encoding.expected(one) for one in left}
    check_store(run, wanted)
    check_kept(run, wanted)
    lengths = {name: len(one.ids) for name, one in wanted.items()}
    for number, (form, _) in enumerate(chosen.datasets):
        name = f"d{number}"
        copies = copies_by_hand(run, name, left, lengths, seed=chosen.seed)
        tokens = check_rows(run / "datasets" / name, wanted, encoding.frame, form=form, copies=copies)
        check_books_of_rows(run, name, wanted, tokens, copies)
    for path in sorted((run / "ledger").glob("*.parquet")):
        books_of(run, path.stem)
    assert report["passed"]
    return outcomes


def test_every_entry_of_the_program_s_tables_is_drawn() -> None:
    assert {form.reader for form in FORMATS.values()} == set(READERS)
    assert {one["kind"] for one in FILTERS.values()} == ALL_FILTERS.keys()
    assert {one["kind"] for one in FORMS.values()} == KINDS.keys()
    assert COMPRESS.keys() == set(COMPRESSIONS)
    pairs, alone = set(all_pairs()), set(alone_values())
    assert pairs == pairs & {pair for one in covering() for pair in pairs_of(one)}
    assert alone <= {value for one in covering() for value in values_of(one)}
    assert {ending for sort, ending in alone if sort == "ending"} == set(ENDINGS)
    assert len(pairs) > 1000


@pytest.mark.parametrize("share", range(SHARES))
def test_each_record_and_token_is_accounted_for_where_every_pair_of_values_meets(
    share: int, files: Path, tmp_path: Path
) -> None:
    reasons: Counter[str | None] = Counter()
    for number, chosen in enumerate(covering()[share::SHARES]):
        (base := tmp_path / str(number)).mkdir()
        reasons.update(one.reason for one in check(chosen, files, base))
        shutil.rmtree(base)
    assert reasons[None] > 20
    assert len(reasons) > 10


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(chance=st.randoms(use_true_random=False))
def test_each_record_and_token_is_accounted_for_in_combinations_that_are_drawn(
    chance: Random, files: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    base = tmp_path_factory.mktemp("drawn")
    check(draw(chance), files, base)
    shutil.rmtree(base)


def cuts_of(name: str, ending: str, data: bytes, written: Sequence[Written]) -> list[int]:
    """Return how many bytes of a file are left: of a stream, up to the midst of two records."""
    if ending.endswith(COMPRESSIONS) or name in REFUSED:
        return [len(data) // 3, len(data) - 3]
    return [(one.position + one.end) // 2 for one in (written[len(written) // 2], written[-1])]


@pytest.mark.parametrize("packed", ["", *COMPRESSIONS])
@pytest.mark.parametrize("name", FORMATS)
def test_a_file_that_is_cut_gives_each_record_before_the_cut_or_is_refused_by_name(
    name: str, packed: str, tmp_path: Path
) -> None:
    form = FORMATS[name]
    ending = next((end for end in endings_of(form.reader) if end.endswith(packed)), None)
    if ending is None:
        pytest.skip("tables are not compressed as a whole")
    records = [Given(number, (texts()[number],)) for number in range(1 if form.single else 4)]
    written = [
        one
        for one in write_source(tmp_path / "mixed", name, ending, records, cut=False)
        if one.path.startswith("00")
    ]
    path = tmp_path / "mixed" / written[0].path
    data = path.read_bytes()
    source = ChosenSource(name, ending, "text", (), cut=False)
    content = run_content(
        Combination((source,), (), "trained", "None eos", (("clm", "concat"),), "none", 1)
    )
    request = RunRequest(
        RunFile.model_validate(content), tmp_path, tmp_path / "run", 0, until="ingest", replace=True
    )
    for left in cuts_of(name, ending, data, written):
        path.write_bytes(data[:left])
        if packed or name in REFUSED:
            with pytest.raises(DataError, match=path.name):
                run_session(request, stream=None)
            continue
        run_session(request, stream=None)
        rows = rows_below(tmp_path / "run", "ingest/*/*/d*.parquet")
        found = [row for row in rows if row["path"] == path.name]
        places = [row["position"] for row in found]
        assert sorted(places) == [one.position for one in written if one.position < left]
        shown = {row["position"]: row["text"] for row in found if "text" in row}
        whole = [one for one in written if one.end <= left and one.reason is None]
        assert all(shown[one.position] == clean_text(*one.texts) for one in whole)
