"""What is promised of a model that the run did not train: it is refused by name."""

import io
from pathlib import Path
from typing import Any

import pytest
import sentencepiece

from stages.errors import FormatError
from stages.tokenizer.encode import load_trained
from stages.tokenizer.special import control_symbols
from tests.stages.tokenizer.test_tokenizer import SMALL, SMALL_VOCAB


def foreign_model(settings_: dict[str, Any]) -> bytes:
    """Return a model that somebody else trained."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([piece for piece, _ in SMALL]),
        model_writer=model,
        model_type="bpe",
        minloglevel=2,
        **settings_,
    )
    return model.getvalue()


@pytest.mark.parametrize(
    "settings_",
    [
        {"vocab_size": 40},
        {"vocab_size": 320, "byte_fallback": True},
        {
            "vocab_size": SMALL_VOCAB,
            "byte_fallback": True,
            "pad_id": 3,
            "control_symbols": list(reversed(control_symbols())),
        },
        {
            "vocab_size": SMALL_VOCAB,
            "byte_fallback": True,
            "pad_id": 3,
            "user_defined_symbols": control_symbols(),
        },
    ],
    ids=["fewer ids", "other ids", "other order", "texts can write them"],
)
def test_a_model_without_our_special_ids_is_refused(tmp_path: Path, settings_: dict[str, Any]) -> None:
    place = tmp_path / "foreign.model"
    place.write_bytes(foreign_model(settings_))
    with pytest.raises(FormatError, match=r"foreign\.model"):
        load_trained(place)


@pytest.mark.parametrize("content", [b"", b"no model", bytes(100)])
def test_a_file_that_is_no_model_is_refused(tmp_path: Path, content: bytes) -> None:
    place = tmp_path / "foreign.model"
    place.write_bytes(content)
    with pytest.raises(FormatError, match=r"foreign\.model"):
        load_trained(place)


def test_a_missing_model_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"nothing\.model"):
        load_trained(tmp_path / "nothing.model")
