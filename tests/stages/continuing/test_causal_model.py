"""What `CausalModel` promises: documents apart, transformers' own losses, refusals with a way out."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file

from stages.continuing.causal_model import CausalModel
from stages.errors import ConfigError
from stages.verify.rows import LabelledRows
from stages.verify.training import CPU
from tests.stages.continuing.checkpoints import ARCHITECTURES, write_checkpoint, write_config
from tests.stages.continuing.test_seen_pieces import rows_of

pytestmark = pytest.mark.slow

DRAWS = np.random.default_rng(3)
FIRST, SECOND = DRAWS.integers(0, 64, 9), DRAWS.integers(0, 64, 6)


def loss_of(model: CausalModel, rows: LabelledRows) -> tuple[float, NDArray[np.int64]]:
    with torch.no_grad():
        parts = list(model.summed_losses(rows))
    return sum(float(loss) for loss, _ in parts), np.concatenate([labels for _, labels in parts])


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_documents_of_a_row_have_the_losses_that_they_have_alone(kind: str, tmp_path: Path) -> None:
    model = CausalModel(write_checkpoint(tmp_path, kind), seed=1, machine=CPU)
    model.require_fit(vocab_size=64, longest=512)
    model.module.eval()
    together, labels = loss_of(model, rows_of(FIRST, SECOND, width=20))
    assert labels.tolist() == [*FIRST[1:], *SECOND[1:]]
    own = 0.0
    for document in (FIRST, SECOND):
        ids = torch.from_numpy(document)[None]
        with torch.no_grad():
            own += float(model.module(input_ids=ids, labels=ids).loss) * (len(document) - 1)
    assert together == pytest.approx(own, rel=1e-5)
    assert together > 10


def test_labels_that_are_hidden_have_no_loss(tmp_path: Path) -> None:
    model = CausalModel(write_checkpoint(tmp_path), seed=1, machine=CPU)
    rows = rows_of(FIRST, SECOND, width=20)
    rows.labels[:, :7] = -100
    _, labels = loss_of(model, rows)
    assert labels.tolist() == [*FIRST[7:], *SECOND[1:]]


def test_weights_are_those_of_the_folder_or_drawn_by_the_seed(tmp_path: Path) -> None:
    stored = write_checkpoint(tmp_path / "stored")
    drawn = write_config(tmp_path / "drawn")

    def weights(folder: Path, seed: int) -> torch.Tensor:
        model = CausalModel(folder, seed=seed, machine=CPU)
        assert model.facts.trained == (folder == stored)
        assert (model.facts.architecture, model.facts.rows) == ("LlamaForCausalLM", 64)
        return torch.cat([one.detach().flatten() for one in model.module.parameters()])

    before = torch.random.get_rng_state()
    assert torch.equal(weights(stored, 1), weights(stored, 2))
    assert torch.equal(weights(drawn, 1), weights(drawn, 1))
    assert not torch.equal(weights(drawn, 1), weights(drawn, 2))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_model_with_too_few_ids_or_positions_is_refused(tmp_path: Path) -> None:
    model = CausalModel(write_checkpoint(tmp_path), seed=1, machine=CPU)
    with pytest.raises(ConfigError, match=r"64 ids, but the run's tokenizer has 65.*tokenizer resize"):
        model.require_fit(vocab_size=65, longest=512)
    with pytest.raises(ConfigError, match=r"512 positions, but rows have up to 513.*packing\.seq_len"):
        model.require_fit(vocab_size=64, longest=513)


def test_a_model_without_attention_is_refused(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, "mamba", state_size=4)
    with pytest.raises(ConfigError, match="does not load it: MambaForCausalLM"):
        CausalModel(folder, seed=1, machine=CPU)


def test_a_model_that_looks_where_it_must_not_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = CausalModel(write_checkpoint(tmp_path), seed=1, machine=CPU)
    forward = model.module.forward

    def without_documents(**inputs: Any) -> Any:
        return forward(**{**inputs, "attention_mask": None, "position_ids": None})

    def both_ways(**inputs: Any) -> Any:
        mask = inputs["attention_mask"]
        return forward(**{**inputs, "attention_mask": mask | mask.mT})

    monkeypatch.setattr(model.module, "forward", without_documents)
    with pytest.raises(ConfigError, match="looks from one document of a row into another"):
        model.require_fit(vocab_size=64, longest=512)
    monkeypatch.setattr(model.module, "forward", both_ways)
    with pytest.raises(ConfigError, match="looks at tokens that come later"):
        model.require_fit(vocab_size=64, longest=512)


def test_folders_that_hold_no_whole_model_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"has no config\.json; name a folder"):
        CausalModel(tmp_path, seed=1, machine=CPU)
    folder = write_checkpoint(tmp_path / "model", tie_word_embeddings=False)
    tensors = load_file(folder / "model.safetensors")
    del tensors["lm_head.weight"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ConfigError, match=r"holds no lm_head\.weight, one of 1 missing tensors"):
        CausalModel(folder, seed=1, machine=CPU)
    (folder / "config.json").write_text(json.dumps({"model_type": "no such"}), encoding="utf-8")
    with pytest.raises(ConfigError, match="transformers does not load it"):
        CausalModel(folder, seed=1, machine=CPU)
