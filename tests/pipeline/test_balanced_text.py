"""What the text that balances a tokenizer promises.

It is read before the run starts, and held to its digest.
"""

from pathlib import Path

import pytest

from pipeline.inputs.balanced_text import (
    MOST_BYTES,
    balance_of,
    read_balance,
    resolve_balance,
)
from pipeline.run_file.config import RunFile
from pipeline.run_file.fingerprints import fingerprint_of
from pipeline.steps.step import Scope
from pipeline.steps.tokenizer.step import TOKENIZER
from stages.errors import ConfigError, DataError
from tests.conftest import small_run


def run_of(**parity: str) -> RunFile:
    """Return a run that trains a balanced tokenizer."""
    return small_run(tokenizer={"train": {"model": "parity_bpe", "parity": parity}})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of the same sentences in two languages."""
    place = tmp_path / "texts"
    place.mkdir()
    (place / "en.txt").write_text("one\n\ntwo\n" + "x" * MOST_BYTES, encoding="utf-8")
    (place / "de.txt").write_text("eins\nnull\nzwei\nx", encoding="utf-8")
    return place


def test_sentences_are_read_that_all_languages_have_up_to_a_size(folder: Path) -> None:
    resolved = resolve_balance(run_of(texts="texts"), folder.parent).tokenizer.train.parity
    assert read_balance(resolved) == {"de": ["eins", "zwei"], "en": ["one", "two"]}


def test_the_digest_decides_the_fingerprint_and_not_the_place(folder: Path, tmp_path: Path) -> None:
    first = resolve_balance(run_of(texts="texts"), tmp_path)
    folder.rename(tmp_path / "moved")
    second = resolve_balance(run_of(texts="moved"), tmp_path)
    (tmp_path / "moved" / "de.txt").write_text("eins\nnull\ndrei\nx", encoding="utf-8")
    third = resolve_balance(run_of(texts="moved"), tmp_path)
    prints = [fingerprint_of(TOKENIZER.settings(Scope(file))) for file in (first, second, third)]
    assert prints[0] == prints[1] != prints[2]
    with pytest.raises(DataError, match="changed since the run was planned"):
        balance_of(second.tokenizer.train)


def test_the_declarations_are_the_text_if_none_is_named(tmp_path: Path) -> None:
    parity = resolve_balance(run_of(), tmp_path).tokenizer.train.parity
    assert parity.texts is None
    texts = read_balance(parity)
    assert len(texts) > 50
    assert all(texts.values())


@pytest.mark.parametrize(
    ("parity", "said"), [({"texts": "none"}, "no such folder"), ({"digest": "0"}, "the texts have")]
)
def test_a_text_that_is_not_there_is_refused_before_the_run(
    parity: dict[str, str], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=said):
        resolve_balance(run_of(**parity), tmp_path)


def test_other_trainings_read_nothing(tmp_path: Path) -> None:
    file = small_run()
    assert resolve_balance(file, tmp_path) is file
