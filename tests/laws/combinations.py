"""Combinations of what a run file can say of data: readers, shapes, filters, framing, packing, kinds.

Each sort of value is a table. Those of the program are taken from its own tables, so that a new entry is
drawn, or its settings are asked for by a test. `fits` says which values allow each other.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from random import Random
from typing import Any, TypeVar, get_args

from stages.cleaning.text import clean_text
from stages.filtering.filter import FilterConfig
from stages.filtering.table import FILTERS as ALL_FILTERS
from stages.filtering.table import filter_of
from stages.objectives.table import read_objective, special_names, traits_of
from stages.objectives.traits import Objective
from stages.packing.strategies import PACKINGS
from stages.reading.table import endings_of
from stages.tokenizer.framing import Framing, Preset
from tests.conftest import bundled_lines
from tests.laws.every_dataset import OBJECTIVES
from tests.laws.given_records import KEPT
from tests.laws.mixed_by_hand import MIXES
from tests.laws.shapes import DIALOGUES, SHAPES, faults_of, fits_shape, learned_roles
from tests.laws.small_tokenizers import TOKENIZERS
from tests.laws.written_dialogues import FILES
from tests.laws.written_records import FORMATS

Value = tuple[str, str]
"""A value of a sort: ("filter", "length")."""
Pair = frozenset[Value]
Item = TypeVar("Item")

FILTERS: dict[str, dict[str, Any]] = {
    "length": {"kind": "length", "min_chars": 30, "max_chars": 1100},
    "gopher_quality": {
        "kind": "gopher_quality",
        "min_words": 5,
        "min_stop_words": 0,
        "min_alphabetic_words": 0.5,
        "min_mean_word_length": 2.0,
    },
    "gopher_repetition": {
        "kind": "gopher_repetition",
        "max_top": (0.6, 0.6, 0.6),
        "max_repeated": (0.4, 0.4, 0.4, 0.4, 0.4, 0.4),
    },
    "c4 lines": {"kind": "c4", "min_sentences": 0},
    "c4 documents": {"kind": "c4", "min_sentences": 1, "remove_lines": False},
    "fineweb": {"kind": "fineweb", "max_short_lines": 0.95, "max_repeated_characters": 0.2},
    "least score": {"kind": "column", "column": "score", "min": 0.2, "missing": "keep"},
    "named languages": {"kind": "column", "column": "lang", "one_of": ("en", "de"), "missing": "keep"},
    "blocked addresses": {"kind": "url", "domains": ("domains.txt",), "substrings": ("parts.txt",)},
    "function": {"kind": "function", "function": "tests.laws.kept_by_hand:keep"},
    "function of a column": {
        "kind": "function",
        "function": "tests.laws.kept_by_hand:scored",
        "columns": ("score",),
    },
    "detected language": {"kind": "language", "languages": ("en", "de", "fr"), "min_confidence": 0.3},
    "filled language": {"kind": "language", "fill": True, "min_confidence": 0.5},
    "personal data": {"kind": "pii", "action": "drop", "find": ("email", "key")},
    "replaced data": {"kind": "pii"},
}
"""Every filter, with settings that drop some documents or change them."""
LISTS = {"domains.txt": "# a list\nblocked.example\n", "parts.txt": "casino\n", **FILES}
"""Files that filters read, and templates."""
KEEPS: dict[str, tuple[str, ...]] = {
    "nothing": (),
    "fields": tuple(name for name in KEPT if "." not in name),
    "fields in fields": tuple(name for name in KEPT if "." in name),
}
"""What goes along with documents."""
DEDUPS: dict[str, dict[str, Any]] = {
    "none": {"exact": False, "near": False},
    "exact": {"near": False},
    "near": {"minhash": {"num_perm": 64}},
}
PRESETS: dict[str, dict[str, Any]] = {preset.value: {"preset": preset} for preset in Preset}


def _choices(name: str) -> tuple[Any, ...]:
    """Return the values that a field of the framing may have."""
    parts = get_args(Framing.model_fields[name].annotation)
    return tuple(value for part in parts for value in (get_args(part) or (part,)))


FRAMINGS: dict[str, dict[str, Any]] = {
    **PRESETS,
    **{
        f"{begin} {end}": {"begin": begin, "end": end}
        for begin, end in product((None, *_choices("begin")), _choices("end"))
        if begin is None or isinstance(begin, str)
    },
    **{
        f"{preset} of rows": {"preset": preset, "per": "row"}
        for preset in (Preset.T5, Preset.ROBERTA, Preset.BERT, Preset.TOKENIZER)
    },
    "cls eos of rows": {"begin": "cls", "end": "eos", "per": "row"},
}
FORMS: dict[str, Mapping[str, Any]] = {
    **{kind: {"kind": kind} for kind in ("clm", "mlm")},
    **OBJECTIVES,
}
"""Objectives, those of every kind among them."""
PAIRING = ("nsp", "sop")
"""Kinds of objectives that lay out whole shards together."""
STRATEGIES = tuple(map(str, PACKINGS))
NAMES = ("mixed", *"bcdefghijklmnopqrst")
"""Of sources; the first is one that an objective has rates for."""
NEW_NAMES = tuple(f"new-{name}" for name in NAMES)
"""Of the files of a run that replays another."""
THEN = ("nothing", "grown", "replayed", "grown, replayed")
"""What becomes of a run: further files make a generation of it, another run replays it."""
MOST_SOURCES, MOST_FILTERS, MOST_DATASETS, MOST_RECORDS = 6, 7, 5, 4
PROSE = 20
"""Texts of prose, before all others."""
FAULTY = -1
"""A record of a combination that is a fault; -2 the next one, and so on."""


@dataclass(frozen=True)
class ChosenSource:
    """A source: of which format, and what is written."""

    form: str
    ending: str
    shape: str
    records: tuple[int, ...]
    """Numbers of texts; those below 0 are faults."""
    cut: bool
    """Whether the last record is cut, if the format allows it."""
    keep: str = "nothing"
    """What goes along with its documents."""
    more: tuple[int, ...] = ()
    """Numbers of further texts, that a later run reads."""
    learn: tuple[str, ...] = ()
    """Roles that it is to learn, as far as its dialogues have them."""

    @property
    def learned(self) -> tuple[str, ...]:
        """Those of these roles that it has, in the files of each run."""
        learned = self.learn
        for records in (self.records, self.more):
            learned = learned_roles(learned, ((texts()[one], one) for one in records if one >= 0))
        return learned


@dataclass(frozen=True)
class Combination:
    """What a run is made of."""

    sources: tuple[ChosenSource, ...]
    filters: tuple[str, ...]
    tokenizer: str
    framing: str
    datasets: tuple[tuple[str, str], ...]
    """Objective and strategy of each."""
    dedup: str
    seed: int
    mixes: tuple[str, ...] = ()
    """What each dataset takes of every source; none if left out."""
    exact: tuple[bool, ...] = ()
    """Whether the rows of each dataset are dealt by source; none are if left out."""
    then: str = "nothing"
    """What becomes of the run when it is done."""
    replays: bool = False
    """Whether it takes the documents of another run too, as the source `mixed`."""

    @property
    def named(self) -> list[tuple[str, ChosenSource]]:
        """The sources with their names."""
        return list(zip(NEW_NAMES if self.replays else NAMES, self.sources, strict=False))


@cache
def texts() -> tuple[str, ...]:
    """Return the texts of documents: short and long, clean and not, some for each filter to drop."""
    bundled = [clean_text(json.loads(line)["text"]) for line in bundled_lines("text/*", 2)]
    code = [clean_text(json.loads(line)["text"]) for line in bundled_lines("code/*", 1)]
    prose = [clean_text(json.loads(line)["text"]) for line in bundled_lines("text/books*", 4)]
    return (
        *(
            text[first : first + 150 + first // 8]
            for text in prose
            for first in range(0, min(len(text) - 500, 4200), 700)
        ),
        *(text[:size] for text, size in zip(bundled, (90, 400, 700, 1000, 250, 600) * 9, strict=False)),
        *(text[:900] for text in code),
        bundled[1][:2600],
        bundled[1][:2600] + " And a word more.",
        " \n\t ",
        "ab",
        "Wri\u0301te to me@example.org or to you@example.org.\r\nCall +1 212 555 0123 by noon, please.",
        "me@example.org",
        "The lorem ipsum of it all. That is how a page looks that has nothing to say to anyone.",
        "A line of it.\n" * 12,
        "so on and " * 30,
        "\n".join(f"- item {number}" for number in range(30)),
        "\ufeffIt begins with a mark. It has three sentences. It ends with a full stop.",
        "A page on <|im_end|>, [/INST] and </s>, on <|endoftext|> and on [SEP], has no turn that ends.",
    )


def config_of(name: str) -> FilterConfig:
    """Return the settings of a filter, not resolved."""
    found: FilterConfig = ALL_FILTERS[FILTERS[name]["kind"]].config.model_validate(FILTERS[name])
    return found


@cache
def _reads_columns(name: str) -> bool:
    config = config_of(name)
    return bool(filter_of(config).columns(config))


@cache
def _rewrites(name: str) -> bool:
    config = config_of(name)
    return filter_of(config).rewrites(config)


def looks_at(name: str, form: str, shape: str) -> bool:
    """Say whether a filter can look at the documents of a format and a shape."""
    return (FORMATS[form].has_columns or not _reads_columns(name)) and (
        SHAPES[shape].sections == 1 or not _rewrites(name)
    )


@cache
def objective_of(form: str) -> Objective:
    """Return the objective of a form."""
    return read_objective(FORMS[form])


@cache
def fits_framing(tokenizer: str, framing: str) -> bool:
    """Say whether a tokenizer has the ids of a framing."""
    roles = TOKENIZERS[tokenizer].framing(FRAMINGS[framing])
    return roles is not None and set(roles) <= {None, *TOKENIZERS[tokenizer].pieces}


def of_rows(framing: str) -> bool:
    """Say whether a framing is that of rows."""
    return FRAMINGS[framing].get("per") == "row"


@cache
def fits_form(tokenizer: str, framing: str, form: str) -> bool:
    """Say whether a dataset of an objective can be made with a tokenizer and a framing that fit."""
    objective, known = objective_of(form), TOKENIZERS[tokenizer]
    traits, roles = traits_of(objective), known.framing(FRAMINGS[framing])
    if roles is None or ((roles[0] is not None or of_rows(framing)) and not traits.may_begin):
        return False
    if known.special is not None and not known.special.issuperset(special_names(objective)):
        return False
    if not known.pads and not traits.eos_may_pad:
        return False
    return known.writes_all or not traits.encodes_text


@cache
def around(tokenizer: str, framing: str) -> str:
    """Return what a framing puts around documents: "cls sep" of the preset bert; "rows" around rows."""
    if of_rows(framing):
        return "rows"
    if FRAMINGS[framing].get("preset") is Preset.TOKENIZER:
        return "its own"
    begin, end = TOKENIZERS[tokenizer].framing(FRAMINGS[framing]) or (None, "")
    return f"{begin} {end}"


@cache
def needed_sections(form: str) -> frozenset[str]:
    """Return the shapes of which a run must have one for an objective; none if any will do."""
    wanted = traits_of(objective_of(form)).sections
    fitting = (
        name
        for name, shape in SHAPES.items()
        if ((shape.sections != 1) if wanted < 0 else shape.sections == wanted)
    )
    return frozenset(fitting) if wanted else frozenset()


@cache
def takes_dialogues(form: str) -> bool:
    """Say whether a run with a dataset of an objective may have dialogues."""
    return traits_of(objective_of(form)).takes_dialogues


def fits_shapes(form: str, shapes: Collection[str]) -> bool:
    """Say whether there is a source of a shape that an objective needs, and none that it refuses."""
    needed = needed_sections(form)
    if not takes_dialogues(form) and not DIALOGUES.isdisjoint(shapes):
        return False
    return not needed or not needed.isdisjoint(shapes)


def draw(chance: Random) -> Combination:
    """Return a combination of values that fit."""
    able = list(SHAPES) if chance.random() < 1 / 2 else [one for one in SHAPES if one not in DIALOGUES]
    sources = tuple(_draw_source(chance, able) for _ in range(chance.randint(1, MOST_SOURCES)))
    filters = tuple(chance.sample(sorted(FILTERS), chance.randint(0, MOST_FILTERS)))
    tokenizer = chance.choice([*TOKENIZERS, *["trained"] * 3])
    framing = chance.choice([one for one in FRAMINGS if fits_framing(tokenizer, one)])
    shapes = {source.shape for source in sources}
    forms = [form for form in FORMS if fits_form(tokenizer, framing, form) and fits_shapes(form, shapes)]
    datasets = tuple(
        (chance.choice(forms), chance.choice(STRATEGIES))
        for _ in range(chance.randint(1, MOST_DATASETS))
    )
    dedup, seed = chance.choice(sorted(DEDUPS)), chance.randrange(1 << 20)
    one = Combination(sources, filters, tokenizer, framing, datasets, dedup, seed)
    return replace(
        one,
        mixes=tuple(chance.choice(list(MIXES)) for _ in datasets),
        exact=tuple(fits_exact(form) and chance.random() < 1 / 2 for form, _ in datasets),
        then=chance.choice([then for then in THEN if fits_then(then, datasets)]),
    )


def _draw_source(chance: Random, shapes: Sequence[str]) -> ChosenSource:
    form = chance.choice(sorted(FORMATS))
    shape = chance.choice([shape for shape in shapes if fits_shape(form, shape)])
    ending = chance.choice(endings_of(FORMATS[form].reader))
    keep = chance.choice([keep for keep in KEEPS if fits_keep(form, keep)])
    return draw_records(chance, ChosenSource(form, ending, shape, (), cut=False, keep=keep))


@cache
def fits_exact(form: str) -> bool:
    """Say whether the rows of an objective can be dealt by source."""
    return not traits_of(objective_of(form)).sentences or FORMS[form]["kind"] not in PAIRING


@cache
def fits_replay(form: str, strategy: str) -> bool:
    """Say whether a dataset can be made of documents whose sentences are not known."""
    traits = traits_of(objective_of(form))
    return not traits.sentences and (strategy != "full" or traits.single)


def fits_then(then: str, datasets: Sequence[tuple[str, str]]) -> bool:
    """Say whether a run of these datasets may be replayed, if it is to be."""
    return "replayed" not in then or any(fits_replay(*one) for one in datasets)


def fits_keep(form: str, keep: str) -> bool:
    """Say whether a format has the columns that are to go along."""
    return FORMATS[form].has_columns or not KEEPS[keep]


def draw_records(chance: Random, source: ChosenSource) -> ChosenSource:
    """Return a source with some records."""
    records = _drawn(chance, MOST_RECORDS)
    for number in range(len(faults_of(source.form, source.shape))):
        if chance.random() < 1 / 3:
            records.insert(chance.randint(0, len(records)), FAULTY - number)
    cut, learn = chance.random() < 1 / 3, chance.choice(SHAPES[source.shape].learns)
    return replace(source, records=tuple(records), cut=cut, learn=learn, more=_more(chance, records))


def _more(chance: Random, records: Sequence[int]) -> tuple[int, ...]:
    """Return the numbers of texts to come, and of some records that were there already."""
    return (*(one for one in records[-2:] if chance.random() < 1 / 2), *_drawn(chance, 2))


def _drawn(chance: Random, most: int) -> list[int]:
    """Return numbers of texts, the first two of prose, of which seven filters leave some."""
    others = [chance.randrange(len(texts())) for _ in range(chance.randint(1, most) - 1)]
    return [*(chance.randrange(PROSE) for _ in range(2)), *others]
