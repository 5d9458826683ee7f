"""Step 0: what a resized model of transformers gives for texts, before it is trained any further.

    before           old model, ids of the old tokenizer
    same ids, after  new model, the same ids: only the softmax is larger
    new ids, after   new model, ids of the new tokenizer

Losses are in nats a character, since tokens of two tokenizers cannot be compared. Texts are cut into
parts of the same characters for all three. Each part follows one BOS, so that every token is predicted.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.tools.tokenizer.resize_tables import TextLoss
from pipeline.tools.tokenizer.verify import texts_of
from stages.cleaning.text import clean_text
from stages.errors import ConfigError, lacks_temporary_folder
from stages.tokenizer.new_ids import ModelFile, ids_of, open_model, roles_of

_PART = 512
"""Characters of a part at most; four times as many tokens fit most models."""
_PARTS = 64
"""Parts that are measured, spread over the text."""
_POSITIONS = ("max_position_embeddings", "n_positions")
_CAUSAL = ("ForCausalLM", "LMHeadModel")


def require_model(config: Mapping[str, Any], folder: Path) -> None:
    """Refuse a model whose losses cannot be measured.

    Raises:
        ConfigError: transformers is not there, or the model is no language model from left to right.
    """
    try:
        import transformers  # noqa: F401, PLC0415  # no dependency of ours
    except ImportError as error:
        raise ConfigError(
            "--text: losses need transformers; pip install transformers, or leave out --text"
        ) from error
    names = [str(name) for name in config.get("architectures") or ()]
    if not any(name.endswith(_CAUSAL) for name in names):
        raise ConfigError(
            f"--text: {folder} is {', '.join(names) or 'of no known architecture'}; losses are measured"
            " of models from left to right alone; leave out --text"
        )


def texts_to_measure(path: Path) -> list[str]:
    """Return the cleaned texts of a file that are not empty.

    Raises:
        ConfigError: there is none.
    """
    found = [text for text in map(clean_text, texts_of(path)) if text]
    if not found:
        raise ConfigError(f"--text {path}: holds no text")
    return found


class StepZero:
    """Both models, with their tokenizers.

    Args:
        before: folder of the old model.
        after: of the new one.
        old: tokenizer of the old one.
        new: of the new one.
    """

    def __init__(self, before: Path, after: Path, *, old: ModelFile, new: ModelFile) -> None:
        from transformers import AutoModelForCausalLM  # noqa: PLC0415  # no dependency of ours
        from transformers.utils import logging  # noqa: PLC0415  # likewise

        logging.set_verbosity_error()
        logging.disable_progress_bar()
        try:
            self._before, self._after = (
                AutoModelForCausalLM.from_pretrained(folder, dtype="float32", local_files_only=True)
                for folder in (before, after)
            )
        except (OSError, ValueError, KeyError, ImportError) as error:
            if lacks_temporary_folder(error):
                raise
            said = str(error).strip().splitlines() or [type(error).__name__]
            raise ConfigError(
                f"--text: {after} is written, but transformers does not load it: {said[0]}"
            ) from error
        self._old, self._new, self._ids = open_model(old), open_model(new), ids_of(old)
        roles = roles_of(old)
        self._begin = roles.get("bos", roles.get("eos", 0))
        config = self._before.config
        positions = min(getattr(config, name, None) or 4 * _PART for name in _POSITIONS)
        self._part = max(1, min(_PART, (positions - 1) // 4))

    def loss(self, path: str, texts: list[str]) -> TextLoss:
        """Return what both models give for texts."""
        parts = self._parts(texts)
        sums, tokens, difference = np.zeros(3), np.zeros(2, np.int64), 0.0
        for part in parts:
            (old,), (new,) = (
                tokenizer.encode_by_library([part]) for tokenizer in (self._old, self._new)
            )
            before, known = self._nats(self._before, old)
            same, grown = self._nats(self._after, old)
            after, _ = self._nats(self._after, new)
            sums += (before, same, after)
            tokens += (len(old), len(new))
            difference = max(difference, float(np.abs(grown[:, self._ids] - known[:, self._ids]).max()))
        characters = sum(map(len, parts))
        before, same, after = (round(float(one) / characters, 6) for one in sums)
        return TextLoss(
            path=path,
            characters=characters,
            tokens=int(tokens[0]),
            new_tokens=int(tokens[1]),
            loss=before,
            same_ids_loss=same,
            new_loss=after,
            largest_difference=difference,
        )

    def _parts(self, texts: list[str]) -> list[str]:
        """Return parts of texts, spread over all of them."""
        size = self._part
        parts = [text[at : at + size] for text in texts for at in range(0, len(text), size)]
        step = max(1, len(parts) / _PARTS)
        return [parts[int(number * step)] for number in range(min(_PARTS, len(parts)))]

    def _nats(self, model: Any, ids: np.ndarray[Any, Any]) -> tuple[float, np.ndarray[Any, Any]]:
        """Return the loss of a row of ids, and the logits: (n, V)."""
        import torch  # noqa: PLC0415  # as above

        row = torch.tensor([[self._begin, *ids.tolist()]])
        with torch.no_grad():
            logits = model(input_ids=row).logits[0, :-1]
            loss = torch.nn.functional.cross_entropy(logits, row[0, 1:], reduction="sum")
        return float(loss), logits.numpy()
