"""What a run that trains a byte-level tokenizer promises.

It is a tokenizer.json that every later step takes: texts come back, and another run that takes the file
knows its special ids.
"""

from pathlib import Path

import orjson
import pytest

from pipeline.engine.tasks import Workspace
from pipeline.planning.existing import find_tokenizer
from pipeline.state.commits import STEP_COMMIT, Commits
from pipeline.state.storage import LocalStorage
from pipeline.steps.decode.step import DECODE, DecodeRecord
from pipeline.steps.tokenizer.load import SPECIAL_IDS, load_tokenizer
from pipeline.steps.tokenizer.training import FAIRNESS
from stages.tokenizer.special import special_ids
from tests.conftest import run_small, small_run

pytestmark = pytest.mark.slow

TRAIN = {"train": {"model": "byte_bpe", "vocab_size": 3000, "sample_size": "300KiB"}}


@pytest.fixture(scope="module")
def finished(small_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run up to the check that tokens decode to their texts."""
    output = tmp_path_factory.mktemp("bytes") / "run"
    run_small(small_corpus, output, tokenizer=TRAIN, until="decode")
    return output


def test_all_documents_decode_to_their_texts(finished: Path) -> None:
    commits = dict(Commits(LocalStorage(finished)).all(DECODE.name))
    record = commits[STEP_COMMIT].read(DECODE.record)
    assert isinstance(record, DecodeRecord)
    assert (record.findings, sorted(record.returned.items())) == ((), [("text", record.documents)])
    assert record.by_library > 0
    tokenizer = load_tokenizer(Workspace(finished, finished))
    assert (tokenizer.vocab_size, tokenizer.special_ids) == (3000, special_ids())
    assert orjson.loads((finished / SPECIAL_IDS).read_bytes()) == special_ids()
    rates = orjson.loads((finished / FAIRNESS).read_bytes())
    assert all(one["sample"]["tokens"] > 0 for one in rates.values())
    assert {path.name for path in (finished / "tokenizer").iterdir()} == {
        "tokenizer.json",
        "special_ids.json",
        "fairness.json",
        "parity.json",
    }


def test_another_run_takes_the_file_with_all_of_its_special_ids(finished: Path) -> None:
    path = str(finished / "tokenizer" / "tokenizer.json")
    adopted = find_tokenizer(small_run(tokenizer={"path": path}), finished)
    assert adopted is not None
    assert (adopted.special_ids, adopted.loss, adopted.vocab_size) == (special_ids(), None, 3000)
