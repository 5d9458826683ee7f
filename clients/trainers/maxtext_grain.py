"""MaxText: its Grain input pipeline over Parquet, ArrayRecord and Megatron's files.

Its models are not run: a small one of torch takes the batches, which come as numpy arrays.
"""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from maxtext.input_pipeline import grain_data_processing
from numpy.typing import NDArray
from torch import Tensor
from watched import IGNORED, Facts, SmallModel, Watch, read_facts, tell, train

KINDS = {
    "hf-parquet": ("parquet", "train/*.parquet", "input_ids", "rows"),
    "array-record": ("arrayrecord", "train/*.array_record", "text", "pieces of documents"),
    "megatron": ("mmap", "train", "text", "windows of a split"),
}
"""For each format, grain_file_type, grain_train_files, train_data_columns, and what a row is."""
FIELDS = ("input_ids",)


def _config(facts: Facts, kind: str) -> SimpleNamespace:
    """Return what the pipeline asks of MaxText's config; the names are those of its base.yml."""
    return SimpleNamespace(
        grain_file_type=kind,
        max_target_length=facts.seq_len,
        global_batch_size_to_load=facts.batch_size,
        tokenizer_path=str(facts.folder / "tokenizer"),
        tokenizer_type="huggingface",
        hf_access_token="",
        add_bos=False,
        add_eos=False,
        packing=False,
        mmap_eod_id=facts.special_ids["eos"],
        mmap_split_sentences=False,
        reset_attention_mask=True,
        eod_mask_loss=False,
        packing_max_segments_per_sample=0,
        blend_cache_dir="",
        blend_index_dir="",
        elastic_enabled=False,
        expansion_factor_real_data=1,
        grain_use_elastic_iterator=False,
        grain_ram_budget_mb=1024,
        is_offline_distillation=False,
    )


def _batches(facts: Facts, *, shuffle: bool) -> Iterator[dict[str, NDArray[np.integer]]]:
    kind, files, column, _ = KINDS[facts.format]
    config = _config(facts, kind)
    options: dict[str, Any] = {
        "shuffle": shuffle,
        "shuffle_seed": 1,
        "shuffle_buffer_size": 256,
        "num_epoch": 1,
        "dataloading_host_index": 0,
        "dataloading_host_count": 1,
        "grain_worker_count": 0,
        "grain_num_threads": 1,
        "grain_prefetch_buffer_size": 8,
        "grain_data_source_max_workers": 1,
        "dataset_config": grain_data_processing._build_dataset_config(config),  # noqa: SLF001
    }
    rows = grain_data_processing.get_datasets(str(facts.folder / files), kind, **options)
    workers = {"grain_worker_count": 0, "grain_per_worker_buffer_size": 1}
    yield from grain_data_processing.pretrain_preprocessing_pipeline(
        rows, config, [column], tokenize=False, **workers
    )


def _whole(batch: dict[str, NDArray[np.integer]]) -> dict[str, NDArray[np.integer]]:
    """Return a batch without the rows that only fill it up, which have one id all over."""
    kept = (batch["inputs"] != batch["inputs"][:, :1]).any(axis=1)
    return {name: values[kept] for name, values in batch.items()}


def _tensors(batches: Iterator[dict[str, NDArray[np.integer]]]) -> Iterator[tuple[Tensor, Tensor]]:
    for batch in batches:
        labels = np.where(batch["targets_segmentation"] != 0, batch["targets"].astype(int), IGNORED)
        yield torch.from_numpy(batch["inputs"].astype(np.int64)), torch.from_numpy(labels)


def main() -> None:
    """Train on one export."""
    facts = read_facts()
    fed, epoch = Watch(FIELDS), Watch(FIELDS)
    losses = train(SmallModel(facts), _tensors(_batches(facts, shuffle=True)), fed, facts)
    for batch in _batches(facts, shuffle=True):
        epoch.saw({"input_ids": _whole(batch)["inputs"]})
    tell(KINDS[facts.format][-1], losses, fed, epoch)


if __name__ == "__main__":
    main()
