"""Shardmill: raw text to verified, memory-mapped training shards.

>>> import shardmill
>>> rows = shardmill.open_dataset("DIR/datasets/clm", split="train")
"""

import stages

if not hasattr(stages, "__path__") or "no Ray" not in (stages.__doc__ or ""):
    raise ImportError(
        f"another package named 'stages' shadows Shardmill's: {getattr(stages, '__file__', stages)};"
        " remove it or put it later on the import path"
    )

from stages.loading.dataset import open_dataset  # after the check above

__all__ = ["open_dataset"]
