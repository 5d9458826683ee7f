"""Models of transformers that read from left to right, on rows of several documents.

    FOLDER  config.json alone                  -> weights drawn by the seed
            config.json, model.safetensors     -> these weights

Positions come from the rows, and each document sees itself alone: the mask is that of the shards. Not
every architecture obeys such a mask (recurrent ones cannot), so a model is tried before it is trained.
Weights are float32; on a GPU it computes in bfloat16.

Axes: N rows, L tokens, V ids of the model.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from stages.errors import ConfigError, lacks_temporary_folder
from stages.loading.attention import attention_mask
from stages.loading.masks import SelfAttention
from stages.verify.rows import NO_LABEL, PADDING, LabelledRows, predicted_labels, take_rows
from stages.verify.training import Machine

CONFIG = "config.json"
WEIGHTS = (
    *("model.safetensors", "model.safetensors.index.json"),
    *("pytorch_model.bin", "pytorch_model.bin.index.json"),
)
"""Files of which a folder with weights has one."""
_LOGITS = 1 << 28
"""Most logits at a time: 1 GiB in float32."""
_WAY_OUT = "name a model with attention, such as Llama, Qwen or GPT-2"
_LEAK = 1e-3
"""Largest difference of logits that a GPU's rounding may make; on a CPU there is none."""


@dataclass(frozen=True)
class ModelFacts:
    """What a checkpoint is."""

    architecture: str
    parameters: int
    """Tied ones counted once."""
    rows: int
    """Ids that it has an embedding for."""
    trained: bool
    """Whether the folder holds weights."""


class CausalModel:
    """A model with what its rows need.

    Args:
        folder: of transformers' save_pretrained.
        seed: of weights that the folder does not hold, and of dropout.
        machine: where it computes.

    Raises:
        ConfigError: transformers is not there, or does not load the folder.
    """

    def __init__(self, folder: Path, *, seed: int, machine: Machine) -> None:
        self.folder, self.machine = folder, machine
        with seeded(seed):
            self.module = _load(folder).to(machine.device)
        embedding = self.module.get_input_embeddings()  # type: ignore[operator]  # of transformers
        self.rows = int(embedding.num_embeddings)
        """Ids that it has an embedding for."""

    @property
    def facts(self) -> ModelFacts:
        """Return what it is."""
        parameters = sum(parameter.numel() for parameter in self.module.parameters())
        return ModelFacts(type(self.module).__name__, parameters, self.rows, has_weights(self.folder))

    def summed_losses(self, rows: LabelledRows) -> Iterator[tuple[Tensor, NDArray[np.int64]]]:
        """Yield the sum of the losses of some rows, () float32, and the labels that it is over, (n,)."""
        width = int(np.count_nonzero(rows.segment_ids != PADDING, axis=1).max(initial=1)) + 1
        width = min(width, rows.input_ids.shape[1])
        at_a_time = max(1, _LOGITS // (width * self.rows))
        for start in range(0, len(rows.labels), at_a_time):
            some = take_rows(rows, np.arange(start, min(start + at_a_time, len(rows.labels))))
            targets = predicted_labels(some)[:, :width]
            labelled = targets != NO_LABEL
            if labelled.any():
                logits = self.logits(some, width)[:, : targets.shape[1]]
                known = torch.from_numpy(labelled).to(logits.device)
                wanted = torch.from_numpy(targets[labelled]).to(logits.device)
                loss = functional.cross_entropy(logits[known].float(), wanted, reduction="sum")
                yield loss, targets[labelled]

    def logits(self, rows: LabelledRows, width: int) -> Tensor:
        """Return the logits of the first positions of rows, (N, width, V)."""
        device = self.machine.device
        ids, segments, positions = (
            torch.from_numpy(np.ascontiguousarray(column[:, :width])).long().to(device)
            for column in (rows.input_ids, rows.segment_ids, rows.position_ids)
        )
        with torch.autocast(torch.device(device).type, torch.bfloat16, enabled=self.machine.bfloat16):
            mask = attention_mask(SelfAttention(rows.attention), segments)
            output = self.module(
                input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False
            )
        logits: Tensor = output.logits
        return logits

    def require_fit(self, *, vocab_size: int, longest: int) -> None:
        """Refuse a model that has too few ids or positions, or that looks into neighbouring documents.

        Args:
            vocab_size: of the tokenizer.
            longest: most tokens of a row.

        Raises:
            ConfigError: says which, and the way out.
        """
        if self.rows < vocab_size:
            raise ConfigError(
                f"--from {self.folder}: the model has rows for {self.rows:,} ids, but the run's"
                f" tokenizer has {vocab_size:,}; give it more with `shardmill tokenizer resize`, or make"
                " the run with the model's own tokenizer"
            )
        positions = getattr(self.module.config, "max_position_embeddings", None)
        if isinstance(positions, int) and 0 < positions < longest:
            raise ConfigError(
                f"--from {self.folder}: the model has {positions:,} positions, but rows have up to"
                f" {longest:,} tokens; set packing.seq_len = {positions} in the run file"
            )
        self._require_mask(vocab_size)

    @torch.no_grad()
    def _require_mask(self, vocab_size: int) -> None:
        """Change one of two documents of a row, or a last token; other logits must not move."""
        half = 8
        ids = 1 + np.arange(2 * half, dtype=np.int64) * 7 % max(1, min(vocab_size, 1000) - 1)
        before, after = ids.copy(), ids.copy()
        before[:half] = ids[half:]
        after[-1] = ids[0]
        self.module.eval()
        try:
            plain, other_before, other_after = (self._logits_of(row) for row in (ids, before, after))
        except (TypeError, ValueError, RuntimeError) as error:
            said = str(error).strip().splitlines() or [type(error).__name__]
            raise ConfigError(
                f"--from {self.folder}: {self.facts.architecture} does not take rows of several"
                f" documents: {said[0]}; {_WAY_OUT}"
            ) from error
        allowed = _LEAK * float(plain.abs().max()) if self.machine.bfloat16 else 0.0
        if float((plain - other_before)[half:].abs().max()) > allowed:
            raise ConfigError(
                f"--from {self.folder}: {self.facts.architecture} looks from one document of a row into"
                f" another; {_WAY_OUT}"
            )
        if float((plain - other_after)[:-1].abs().max()) > allowed:
            raise ConfigError(
                f"--from {self.folder}: {self.facts.architecture} looks at tokens that come later;"
                f" {_WAY_OUT}"
            )

    def _logits_of(self, ids: NDArray[np.int64]) -> Tensor:
        """Return the logits of a row of two documents of the same length, (L, V) float32."""
        places, half = np.arange(len(ids), dtype=np.int32)[None], len(ids) // 2
        rows = LabelledRows(ids[None], ids[None], places // half, places % half)
        return self.logits(rows, len(ids))[0].float()


def has_weights(folder: Path) -> bool:
    """Say whether a folder of transformers holds weights, or a config alone."""
    return any((folder / name).exists() for name in WEIGHTS)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's own generators, which transformers draws weights and dropout from; put them back."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield


def _load(folder: Path) -> nn.Module:
    """Return a model in float32."""
    if not (folder / CONFIG).is_file():
        raise ConfigError(
            f"--from {folder}: has no {CONFIG}; name a folder that transformers' save_pretrained wrote"
        )
    try:
        from transformers import AutoConfig, AutoModelForCausalLM  # noqa: PLC0415  # an extra
        from transformers.utils import logging  # noqa: PLC0415  # likewise
    except ImportError as error:
        raise ConfigError(
            "--from: models of transformers need it; pip install 'shardmill[train]'"
        ) from error
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        if not has_weights(folder):
            config = AutoConfig.from_pretrained(folder, local_files_only=True)
            module: nn.Module = AutoModelForCausalLM.from_config(
                config, dtype=torch.float32, attn_implementation="sdpa"
            )
            return module
        module, report = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=torch.float32,
            attn_implementation="sdpa",
            local_files_only=True,
            output_loading_info=True,
        )
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
        if lacks_temporary_folder(error):
            raise
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise ConfigError(f"--from {folder}: transformers does not load it: {said[0]}") from error
    if missing := sorted(report["missing_keys"]):
        raise ConfigError(
            f"--from {folder}: holds no {missing[0]}, one of {len(missing)} missing tensors, which would"
            " be random; save the whole model with save_pretrained"
        )
    return module
