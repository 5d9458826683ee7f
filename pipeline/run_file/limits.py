"""Limits: settings that only stop a run, and decide no byte of it."""

from pipeline.run_file.config import RunFile, TokenizerLimits


def without_limits(file: RunFile) -> RunFile:
    """Return a run file whose limits stop nothing.

    A finished run may have lower ones by now than those it was made with.
    """
    ingest = file.ingest.model_copy(update={"max_bad_fraction": 1.0})
    dedup = file.dedup.model_copy(update={"max_removed_fraction": 1.0, "max_cluster_size": None})
    sources = tuple(one.model_copy(update={"max_removed_fraction": None}) for one in file.sources)
    mix = None if file.mix is None else file.mix.model_copy(update={"tolerance": 1.0})
    tokenizer = file.tokenizer.model_copy(update={"limits": TokenizerLimits()})
    datasets = tuple(
        one
        if one.mix is None
        else one.model_copy(update={"mix": one.mix.model_copy(update={"tolerance": 1.0})})
        for one in file.datasets
    )
    lifted = {"ingest": ingest, "dedup": dedup, "sources": sources, "tokenizer": tokenizer}
    return file.model_copy(update={**lifted, "mix": mix, "datasets": datasets})
