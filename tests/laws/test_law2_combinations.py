"""What law 2 promises of every combination of reader, shape, filter, framing, packing, kind and mix.

Every record that was written is a document or a drop with its reason; every token of a document that
stays is in the rows of every dataset once and in order; every step's books balance. All of it is counted
from the files of real runs, by hand. Every pair of values meets in one of the runs.

Some of these grow by a generation, and some are replayed by another run; all is counted there too.

A campaign draws hundreds more combinations.
"""

import re
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.report.words import GONE_SAID
from pipeline.run_file.config import RunFile
from pipeline.session.request import RunRequest
from pipeline.session.session import run_session
from stages.cleaning.text import clean_text
from stages.errors import DataError
from stages.filtering.table import FILTERS as ALL_FILTERS
from stages.objectives.table import KINDS
from stages.reading.decompress import COMPRESSIONS
from stages.reading.table import READERS, endings_of
from tests.campaign import FULL
from tests.laws.checked_runs import check
from tests.laws.combinations import FILTERS, FORMS, ChosenSource, Combination, draw, texts
from tests.laws.counted_by_hand import rows_below
from tests.laws.covering import TRIED_ENDINGS, all_pairs, alone_values, covering, pairs_of, values_of
from tests.laws.covering_mixes import every_mixed_pair, mixed_pairs
from tests.laws.given_records import Given, Written
from tests.laws.run_contents import run_content
from tests.laws.small_tokenizers import TOKENIZERS
from tests.laws.written_records import COMPRESS, FORMATS, write_source

pytestmark = pytest.mark.usefixtures("few_redrawn")

SHARES = range(10) if FULL else [0]
"""Tests in which the runs are done that cover all pairs."""
_SMALL = 17
"""Of the runs, one of so many is done in a test of every day."""
REFUSED = ("JSON list", "Parquet", "Arrow file", "Arrow stream")
"""Formats of which a file that is cut is refused."""
EXAMPLES = 300


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of all tokenizers."""
    folder = tmp_path_factory.mktemp("tokenizers")
    for known in TOKENIZERS.values():
        (folder / known.file).write_bytes(known.make())
    return folder


def test_every_entry_of_the_program_s_tables_is_drawn() -> None:
    assert {form.reader for form in FORMATS.values()} == set(READERS)
    assert {one["kind"] for one in FILTERS.values()} == ALL_FILTERS.keys()
    assert {one["kind"] for one in FORMS.values()} == KINDS.keys()
    assert COMPRESS.keys() == set(COMPRESSIONS)
    pairs, alone = set(all_pairs()), set(alone_values())
    assert pairs == pairs & {pair for one in covering() for pair in pairs_of(one)}
    assert alone <= {value for one in covering() for value in values_of(one)}
    assert {ending for sort, ending in alone if sort == "ending"} == set(TRIED_ENDINGS)
    assert len(pairs) > 1000
    mixed = every_mixed_pair()
    assert mixed <= {pair for one in covering() for pair in mixed_pairs(one)}
    assert len(mixed) > 300


def _share_of(number: int) -> list[Combination]:
    """Return some of the combinations; a few of every day have a generation and a replay among them."""
    ordered = sorted(covering(), key=lambda one: one.then)
    if FULL:
        return ordered[number::10]
    shares = [ordered[first::_SMALL] for first in range(_SMALL)]
    return next(some for some in shares if {"grown", "replayed"} <= {one.then for one in some})


@pytest.mark.parametrize("share", SHARES)
def test_each_record_and_token_is_accounted_for_where_every_pair_of_values_meets(
    share: int, files: Path, tmp_path: Path
) -> None:
    reasons, then = Counter[str | None](), Counter[str]()
    for number, chosen in enumerate(_share_of(share)):
        (base := tmp_path / str(number)).mkdir()
        found = check(chosen, files, base)
        reasons.update(one.reason for one in found.outcomes)
        then.update(found.then)
        shutil.rmtree(base)
    assert reasons[None] > (20 if FULL else 10)
    assert len(reasons) > 10
    by_filters = {reason for one in ALL_FILTERS.values() for reason in one.reasons}
    found_by_filters = {
        re.sub(r"-\d+[.]", ".", reason) for reason in reasons if reason and "." in reason
    }
    assert sorted(found_by_filters - by_filters) == [], "`rules` of a filter has all of its reasons"
    of_readers = {reason for reason in reasons if reason and "." not in reason}
    assert sorted(of_readers - GONE_SAID.keys()) == [], "`drops` of a reader has its own reasons"
    assert then["grown"]
    assert then["replayed"]


@pytest.mark.campaign  # the same law over combinations that cover all pairs is above
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


PACKED = [(name, packed) for packed in ("", *COMPRESSIONS) for name in FORMATS]
"""Formats, as they are and compressed."""


@pytest.mark.parametrize(
    ("name", "packed"), PACKED if FULL else [*PACKED[: len(FORMATS)], *PACKED[len(FORMATS) :: 4]]
)
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
