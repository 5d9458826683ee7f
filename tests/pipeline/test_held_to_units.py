"""What a shard says of sentences and documents is held to the units that it was made of."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pipeline.steps.decode.texts import StoredTexts
from pipeline.steps.units import NAME
from pipeline.steps.verify.check import _sentences
from pipeline.steps.verify.mixed import _classes, _ShardList
from stages.findings import Finding
from stages.ragged import Ragged

ENDS = Ragged(np.array([0, 2, 3]), np.array([4, 9, 7]))


@pytest.mark.parametrize(
    ("found", "wanted", "wrong"),
    [
        (ENDS, ENDS, 0),
        (None, ENDS, 0),  # of an objective that has no use for them
        (ENDS, None, 0),
        (Ragged(ENDS.ptr, np.array([4, 8, 7])), ENDS, 1),
        (Ragged(np.array([0, 1, 3]), ENDS.values), ENDS, 1),
    ],
    ids=["the same", "none in the shard", "none in units", "another end", "another document's"],
)
def test_sentences_end_where_those_of_the_units_do(
    found: Ragged | None, wanted: Ragged | None, wrong: int
) -> None:
    mapped: Any = SimpleNamespace(sentences=found)
    group: Any = SimpleNamespace(sentences=wanted)
    findings = list(_sentences("clm/shard", mapped, group))
    said = Finding("sentences", "they end elsewhere than in the units")
    assert findings == [("clm/shard/sentences", said)] * wrong


def test_of_each_class_what_rows_lack_of_its_documents_was_cut() -> None:
    source, language = np.array([0, 1, 1, 0]), np.array([1, 0, 1, 1])
    listed = _ShardList(("web", "wiki"), source, ("de", "en"), language, np.array([10, 20, 30, 7]))
    found = _classes(listed, np.array([10, 15, 30, 3]))
    told = [(one.source, one.language, one.documents, one.tokens, one.tokens_cut) for one in found]
    assert told == [("web", "en", 2, 13, 4), ("wiki", "de", 1, 15, 5), ("wiki", "en", 1, 30, 0)]
    assert [one.longest for one in found] == [10, 20, 30]


def test_of_several_wrong_documents_the_first_is_named() -> None:
    names = np.arange(64, dtype=np.uint8).view(NAME)
    unit: Any = SimpleNamespace(tokens="tokens/web-0", sections=1)
    stored = StoredTexts(unit, SimpleNamespace(), names, None, begun=False)  # type: ignore[arg-type]
    file, finding = stored.finding("text", np.array([2, 3]), "do not decode to their text")
    assert Path(file) == Path("tokens/web-0/ids.npy")
    first = bytes(range(32, 48)).hex()
    assert (
        finding.message == f"2 of 4 documents do not decode to their text; the first is document {first}"
    )
