"""Run files of combinations, and what their filters are in a source."""

from dataclasses import replace
from typing import Any

from stages.filtering.filter import FilterConfig
from tests.laws.combinations import (
    DEDUPS,
    FILTERS,
    FORMS,
    FRAMINGS,
    KEEPS,
    NAMES,
    ChosenSource,
    Combination,
    config_of,
    fits_replay,
    looks_at,
)
from tests.laws.mixed_by_hand import mix_content
from tests.laws.shapes import source_fields
from tests.laws.written_records import FORMATS

REPLAYED = NAMES[0]
"""The name of the source that another run is."""


def run_content(chosen: Combination) -> dict[str, Any]:
    """Return the run file of a combination, but for its tokenizer."""
    sources = [name for name, _ in chosen.named] + [REPLAYED] * chosen.replays
    return {
        "seed": chosen.seed,
        "sources": [
            *(_source(name, source) for name, source in chosen.named),
            *([{"name": REPLAYED, "run": "run"}] if chosen.replays else []),
        ],
        "ingest": {
            "unit_size": "1MiB" if chosen.seed % 4 else "4KiB",
            "min_chars": 3,
            "max_bad_fraction": 1.0,
        },
        "filters": [
            {**FILTERS[name], "sources": looked}
            for name in chosen.filters
            if (looked := _looked(chosen, name))
        ],
        "dedup": DEDUPS[chosen.dedup],
        "framing": FRAMINGS[chosen.framing],
        "validation": {"fraction": 0.2},
        "packing": {"seq_len": 96, "shards": 1 + chosen.seed % 2},
        "datasets": [
            {
                "name": f"d{number}",
                "objective": FORMS[form],
                "packing": {"strategy": strategy},
                "materialized_epochs": (number + chosen.seed) % 2,
                **mix_content(number, mix, sources, exact=exact),
            }
            for number, ((form, strategy), mix, exact) in enumerate(laid_out(chosen))
        ],
        "verify": {"learning": False},
    }


def _source(name: str, source: ChosenSource) -> dict[str, Any]:
    form, content = FORMATS[source.form], {"name": name, "paths": [f"{name}/*"]}
    content |= form.settings
    split = getattr(form.reader, "split", None)
    columns = {
        "id_column": "id",
        "language": {"column": "lang"},
        "keep_columns": KEEPS[source.keep],
        **source_fields(source.shape, source.learned),
    }
    return {
        **content,
        **({} if split is None else {"text_split": split}),
        **(columns if form.has_columns else {}),
    }


def _looked(chosen: Combination, name: str) -> list[str]:
    """Return the sources that a filter looks at."""
    return [one for one, source in chosen.named if looks_at(name, source.form, source.shape)]


def filters_of(chosen: Combination, source: str) -> list[tuple[str, FilterConfig]]:
    """Return the filters of a source with their labels in reasons, as the run has them in order."""
    counts: dict[str, int] = {}
    found = []
    for name in chosen.filters:
        looked, kind = _looked(chosen, name), FILTERS[name]["kind"]
        if looked:
            counts[kind] = counts.get(kind, 0) + 1
            label = kind if counts[kind] == 1 else f"{kind}-{counts[kind]}"
            if source in looked:
                found.append((label, config_of(name)))
    return found


def laid_out(chosen: Combination) -> list[tuple[tuple[str, str], str, bool]]:
    """Return the datasets of a combination with their mixes, and whether their rows are dealt."""
    rest = len(chosen.datasets)
    mixes, exact = chosen.mixes or ("none",) * rest, chosen.exact or (False,) * rest
    return list(zip(chosen.datasets, mixes, exact, strict=True))


def replaying(chosen: Combination) -> Combination:
    """Return the run that replays another: over the files that are still to come."""
    datasets, mixes, exact = zip(*(one for one in laid_out(chosen) if fits_replay(*one[0])), strict=True)
    sources = tuple(replace(one, records=one.more, more=one.records) for one in chosen.sources)
    return replace(
        chosen,
        sources=sources,
        datasets=datasets,
        mixes=mixes,
        exact=exact,
        seed=chosen.seed + 1,
        replays=True,
    )
