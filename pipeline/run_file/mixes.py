"""The mix of each dataset: what its sources say, what the run's `[mix]` says, and what is its own.

    [[sources]]  epochs, share, max_epochs      of every dataset
    [mix]        total_tokens, ...              of every dataset
    [datasets.mix]                              of this one; keys that it leaves out are the run's
    [datasets.mix.sources]  NAME = { ... }      in place of what the source NAME says

A dataset whose sources all have one epoch, and that asks for nothing else, has no mix: it holds every
kept document once.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from pydantic import BaseModel, ValidationError

from pipeline.run_file.dataset import Dataset
from pipeline.run_file.source import Source
from stages.mixing.config import DatasetMix, Mix, SourceMix
from stages.objectives.kind import no_layout_of_its_own
from stages.objectives.table import kind_of


def with_whole_mixes(content: Any) -> Any:
    """Return a run's content with every key filled in where a dataset has a mix of its own.

    What has another form than a run file is returned as it is: the model says what is wrong with it.
    """
    if not isinstance(content, Mapping) or not isinstance(content.get("datasets"), list | tuple):
        return content
    try:
        shared = Mix.model_validate(content.get("mix", {}))
    except ValidationError:
        return content  # said once, of the run's own mix
    return {**content, "datasets": [_filled(dataset, shared) for dataset in content["datasets"]]}


def _filled(dataset: Any, shared: Mix) -> Any:
    if isinstance(dataset, BaseModel):
        dataset = dataset.model_dump(exclude_unset=True)
    if not isinstance(dataset, Mapping) or not isinstance(dataset.get("mix"), Mapping):
        return dataset
    return {**dataset, "mix": {**shared.model_dump(), **dataset["mix"]}}


def mix_of(dataset: Dataset, sources: Sequence[Source], run_mix: Mix) -> DatasetMix | None:
    """Return a dataset's mix, in which every source is named; None if it is every document once.

    Args:
        dataset: one of a run.
        sources: all of the run.
        run_mix: what the run says of every dataset.
    """
    shared = {name: getattr(run_mix, name) for name in Mix.model_fields}
    own = dataset.mix or DatasetMix(**shared)
    named = {one.name: own.sources.get(one.name) or _own(one) for one in sources}
    whole = own.model_copy(update={"sources": named})
    weights = any(one.weight_column for one in sources)
    plain = all(one.share is None and one.whole_epochs == 1 for one in named.values())
    asked = whole.total_tokens or whole.after or whole.language_alpha != 1
    if plain and not weights and not asked and whole.interleave == "shuffle":
        return None
    return whole


def _own(source: Source) -> SourceMix:
    return SourceMix(epochs=source.epochs, share=source.share, max_epochs=source.max_epochs)


def require_possible_mixes(datasets: Sequence[Dataset], sources: Sequence[Source], run_mix: Mix) -> None:
    """Refuse mixes that no documents could meet; the arguments are those of `mix_of`.

    Raises:
        ValueError: says which, and the way out.
    """
    for source in sources:
        if source.run is not None:  # what goes along with its documents is known once it is found
            continue
        if source.weight_column is not None and source.weight_column not in source.keep_columns:
            kept = ", ".join(f'"{name}"' for name in (*source.keep_columns, source.weight_column))
            raise ValueError(
                f"source {source.name!r}: weight_column = {source.weight_column!r} must go along with"
                f" the documents; write keep_columns = [{kept}]"
            )
    for place, dataset in enumerate(datasets):
        mix = mix_of(dataset, sources, run_mix)
        if mix is None:
            continue
        begin = f"dataset {dataset.name!r}: mix"
        strangers = sorted(set(mix.sources) - {source.name for source in sources})
        if strangers:
            there = ", ".join(source.name for source in sources)
            raise ValueError(f"{begin}.sources.{strangers[0]}: no such source; the run has {there}")
        _require_shares(begin, mix)
        _require_stage(begin, mix, [one.name for one in datasets[:place]])
        if mix.interleave == "exact" and _pairs_documents(dataset):
            raise ValueError(
                f'{begin}.interleave = "exact": kind = {dataset.objective.kind!r} lays out whole shards'
                ' together, so its rows cannot be dealt by source; leave interleave = "shuffle"'
            )


def _pairs_documents(dataset: Dataset) -> bool:
    """Say whether rows are cut at sentences, and may borrow from other documents of their shard."""
    return dataset.traits.sentences and kind_of(dataset.objective).lay_out is not no_layout_of_its_own


def _require_shares(begin: str, mix: DatasetMix) -> None:
    """Refuse shares that leave too little or too much."""
    shares = {name: one.share for name, one in mix.sources.items() if one.share is not None}
    total = sum((Fraction(str(share)) for share in shares.values()), Fraction(0))
    filling = [name for name, one in mix.sources.items() if one.share is None and one.whole_epochs > 0]
    said = " + ".join(f"{name} {share:g}" for name, share in shares.items())
    if total > 1:
        raise ValueError(
            f"{begin}: the shares sum to {float(total):g} ({said}); lower them to 1 at most"
        )
    if total == 1 and filling:
        raise ValueError(
            f"{begin}: the shares sum to 1 ({said}) and leave nothing for source {filling[0]!r}, which"
            " has epochs; give it epochs = 0 or a share, and lower the others"
        )
    if total < 1 and not filling:
        missing = f"nothing fills the other {float(1 - total):g}" if shares else "no source has any"
        raise ValueError(
            f"{begin}: the shares sum to {float(total):g} ({said or 'none'}) and {missing}; raise them"
            " to 1, or give a source epochs"
        )


def _require_stage(begin: str, mix: DatasetMix, before: Sequence[str]) -> None:
    """Refuse a stage that follows none."""
    if mix.after is not None and mix.after not in before:
        there = f"those before it are {', '.join(before)}" if before else "it is the first"
        raise ValueError(
            f"{begin}.after = {mix.after!r}: must be a dataset that stands before this one in the run"
            f" file; {there}"
        )
