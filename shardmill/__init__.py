"""Shardmill: raw text to verified, memory-mapped training shards.

>>> import shardmill
>>> rows = shardmill.open_dataset("DIR/datasets/clm", split="train")

Each name is imported when it is first used. Opening a dataset needs numpy, pydantic and xxhash. Tensors
need torch. What the commands do (`init`, `plan`, `forecast`, `run`, `verify`, `inspect`, `duplicates`,
`export`, `open_run` and others) needs `pip install shardmill[run]`. The packages `stages` and `pipeline`
are internal, and may change without notice.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

import stages

if not hasattr(stages, "__path__") or "no Ray" not in (stages.__doc__ or ""):
    raise ImportError(
        f"another package named 'stages' shadows Shardmill's: {getattr(stages, '__file__', stages)};"
        " remove it or put it later on the import path"
    )

if TYPE_CHECKING:
    from pipeline.commands.api import open_run, plan, run, verify
    from pipeline.report.clusters import duplicates
    from pipeline.report.fate import find_document
    from pipeline.report.inspection import inspect
    from pipeline.run_file.config import RunFile
    from pipeline.tools.export.dataset import export
    from pipeline.tools.export.stages import export_stages
    from pipeline.tools.export.texts import export_texts
    from pipeline.tools.forecast.forecast import forecast
    from pipeline.tools.init.init import init
    from pipeline.tools.tokenizer.export import export_tokenizer
    from stages.errors import (
        ConfigError,
        DataError,
        FormatError,
        Interrupted,
        ShardmillError,
        Stopped,
        VerificationError,
    )
    from stages.loading.attention import dense_masks, flex_block_masks
    from stages.loading.batches import Batches
    from stages.loading.blend import Blend
    from stages.loading.collate import collate
    from stages.loading.dataset import Batch, ShardDataset
    from stages.loading.grown import open_dataset
    from stages.loading.hub_rows import to_iterable_dataset
    from stages.loading.losses import (
        Loss,
        causal_lm_loss,
        contrastive_loss,
        duplicate_rows,
        electra_loss,
        masked_lm_loss,
        next_labels,
        pair_classification_loss,
        replaced_token_loss,
        seq2seq_loss,
    )
    from stages.loading.masks import cu_seqlens, masks_of
    from stages.loading.model_masks import model_masks, refuse_boolean_mask
    from stages.loading.sequence import Sequence, open_sequence
    from stages.loading.stage import Stage
    from stages.loading.torch_loader import Loader, validation_loader
    from stages.loading.torchtitan import TorchtitanLoader

    __version__: str

__all__ = [
    "Batch",
    "Batches",
    "Blend",
    "ConfigError",
    "DataError",
    "FormatError",
    "Interrupted",
    "Loader",
    "Loss",
    "RunFile",
    "Sequence",
    "ShardDataset",
    "ShardmillError",
    "Stage",
    "Stopped",
    "TorchtitanLoader",
    "VerificationError",
    "causal_lm_loss",
    "collate",
    "contrastive_loss",
    "cu_seqlens",
    "dense_masks",
    "duplicate_rows",
    "duplicates",
    "electra_loss",
    "export",
    "export_stages",
    "export_texts",
    "export_tokenizer",
    "find_document",
    "flex_block_masks",
    "forecast",
    "init",
    "inspect",
    "masked_lm_loss",
    "masks_of",
    "model_masks",
    "next_labels",
    "open_dataset",
    "open_run",
    "open_sequence",
    "pair_classification_loss",
    "plan",
    "refuse_boolean_mask",
    "replaced_token_loss",
    "run",
    "seq2seq_loss",
    "to_iterable_dataset",
    "validation_loader",
    "verify",
]

_MODULES = {
    "pipeline.commands.api": ("open_run", "plan", "run", "verify"),
    "pipeline.report.clusters": ("duplicates",),
    "pipeline.report.fate": ("find_document",),
    "pipeline.report.inspection": ("inspect",),
    "pipeline.tools.export.dataset": ("export",),
    "pipeline.tools.export.stages": ("export_stages",),
    "pipeline.tools.export.texts": ("export_texts",),
    "pipeline.run_file.config": ("RunFile",),
    "pipeline.tools.forecast.forecast": ("forecast",),
    "pipeline.tools.init.init": ("init",),
    "pipeline.tools.tokenizer.export": ("export_tokenizer",),
    "stages.errors": (
        "ConfigError",
        "DataError",
        "FormatError",
        "Interrupted",
        "ShardmillError",
        "Stopped",
        "VerificationError",
    ),
    "stages.loading.attention": ("dense_masks", "flex_block_masks"),
    "stages.loading.batches": ("Batches",),
    "stages.loading.blend": ("Blend",),
    "stages.loading.collate": ("collate",),
    "stages.loading.dataset": ("Batch", "ShardDataset"),
    "stages.loading.grown": ("open_dataset",),
    "stages.loading.hub_rows": ("to_iterable_dataset",),
    "stages.loading.losses": (
        "Loss",
        "causal_lm_loss",
        "contrastive_loss",
        "duplicate_rows",
        "electra_loss",
        "masked_lm_loss",
        "next_labels",
        "pair_classification_loss",
        "replaced_token_loss",
        "seq2seq_loss",
    ),
    "stages.loading.masks": ("cu_seqlens", "masks_of"),
    "stages.loading.model_masks": ("model_masks", "refuse_boolean_mask"),
    "stages.loading.sequence": ("Sequence", "open_sequence"),
    "stages.loading.stage": ("Stage",),
    "stages.loading.torch_loader": ("Loader", "validation_loader"),
    "stages.loading.torchtitan": ("TorchtitanLoader",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import what is asked for, once."""
        if name == "__version__":
            return version("shardmill")
        if name not in _HOMES:
            raise AttributeError(f"module 'shardmill' has no attribute {name!r}")
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """Return the public names."""
    return [*__all__, "__version__"]
