"""The objectives that exist, and what the program asks about any of them.

What is not in `KINDS` does not exist. Of a composite kind, the answer is put together of what its
components answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Annotated, Never, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from stages.config import one_of
from stages.errors import ConfigError, FormatError
from stages.objectives.components import WeightedObjective, choose_by_weight
from stages.objectives.kind import Composite, Kind, RowTally
from stages.objectives.mixture.kind import MIXTURE
from stages.objectives.rows import Widths
from stages.objectives.simple_kinds import SIMPLE_KINDS
from stages.objectives.traits import Objective, Questions, Traits
from stages.objectives.ul2.kind import DENOISERS
from stages.objectives.vocabulary import Vocabulary
from stages.packing.layout import PackingConfig
from stages.packing.strategies import PACKINGS

_Config = TypeVar("_Config", bound=Objective)

_ALL: tuple[Kind[Never] | Composite[Never], ...] = (*SIMPLE_KINDS, MIXTURE, DENOISERS)
KINDS = {kind.name: kind for kind in sorted(_ALL, key=attrgetter("name"))}
"""Every kind by its name."""
AnyObjective = Annotated[Objective, one_of(kind.config for kind in KINDS.values())]
"""The config of any objective, as a field of another config; `kind` says which."""


def kind_of(objective: _Config) -> Kind[_Config]:
    """Return what is known of an objective that is no composite."""
    return cast("Kind[_Config]", KINDS[objective.kind])


def components_of(objective: Objective) -> tuple[Objective, ...]:
    """Return the components of a composite in their order; none if it is no composite."""
    return tuple(part.objective for part in weighted_components(objective))


def weighted_components(objective: Objective) -> tuple[WeightedObjective, ...]:
    """Return the components of a composite, with names and weights; none if it is no composite."""
    kind = KINDS[objective.kind]
    return kind.components(cast("Never", objective)) if isinstance(kind, Composite) else ()


def traits_of(objective: Objective) -> Traits:
    """Return what follows from an objective's config."""
    parts = [traits_of(part) for part in components_of(objective)]
    return _together(parts) if parts else kind_of(objective).traits(objective)


def _together(parts: Sequence[Traits]) -> Traits:
    """Return the traits of a composite; its components share what is the first one's."""
    return replace(
        parts[0],
        copied=False,  # which component a row has is a column that is made
        dynamic=any(part.dynamic for part in parts),
        words=any(part.words for part in parts),
        unigram=any(part.unigram for part in parts),
        may_begin=all(part.may_begin for part in parts),
        takes_dialogues=all(part.takes_dialogues for part in parts),
    )


@dataclass(frozen=True, eq=False)
class ResolvedObjective:
    """An objective with what follows from it for rows of one length: asked for once, then passed on."""

    config: Objective
    kind: Kind[Objective] | None
    """None of a composite: its components lay out and draw its rows."""
    traits: Traits
    widths: Widths
    parts: tuple["ResolvedObjective", ...] = ()
    """The components of a composite in their order; none if it is no composite."""
    weights: tuple[float, ...] = ()
    """How likely a document copy is to have each, in any unit."""

    def component(self, hashed: int) -> int:
        """Return the component that a document copy's hash, below 2**64, chooses; 0 without any."""
        return choose_by_weight(hashed, self.weights) if self.parts else 0


def resolve(objective: Objective, seq_len: int) -> ResolvedObjective:
    """Return an objective with what follows from it for inputs of `seq_len` tokens.

    Raises:
        ConfigError: `seq_len` is too short for any row.
    """
    weighted = weighted_components(objective)
    if not weighted:
        kind = kind_of(objective)
        return ResolvedObjective(
            objective, kind, kind.traits(objective), kind.widths(objective, seq_len)
        )
    parts = tuple(resolve(part.objective, seq_len) for part in weighted)
    traits, each = _together([part.traits for part in parts]), [part.widths for part in parts]
    widths = Widths(max(w.stored for w in each), seq_len, max(w.labels for w in each))
    return ResolvedObjective(
        objective, None, traits, widths, parts, tuple(part.weight for part in weighted)
    )


def needs_sentences(traits: Traits, packing: PackingConfig) -> bool:
    """Say whether rows can only be made by who knows where sentences end, to draw or to pack them."""
    return traits.sentences or (PACKINGS[packing.strategy].sentences and not traits.single)


def special_names(objective: Objective) -> tuple[str, ...]:
    """Return the special ids that an objective writes into its rows, EOS and padding apart.

    mlm -> mask; span_corruption -> sentinel_0, of how many there must be `refuse_impossible` knows
    """
    parts = components_of(objective)
    if not parts:
        return kind_of(objective).special_names(objective)
    return tuple(name for part in parts for name in special_names(part))


def questions_of(objective: Objective) -> Questions:
    """Return how the models of an objective are asked; of a composite, as all components are."""
    kind = KINDS[objective.kind]
    if not isinstance(kind, Composite):
        return kind_of(objective).questions(objective)
    first, *others = map(questions_of, components_of(objective))
    return kind.questions or (first if all(other == first for other in others) else Questions())


def tally_of(objective: Objective, vocabulary: Vocabulary, convention: str) -> RowTally | None:
    """Return what counts an objective's columns by its own laws; None if it has none."""
    if components_of(objective):
        return None
    return kind_of(objective).tally(objective, vocabulary, convention)


def refuse_impossible(objective: Objective, *, seq_len: int, num_sentinels: int) -> None:
    """Refuse rows that an objective cannot be made of.

    Raises:
        ConfigError: the rows are too short, or need more sentinels than there are.
    """
    known = resolve(objective, seq_len)
    for part in known.parts:
        refuse_impossible(part.config, seq_len=seq_len, num_sentinels=num_sentinels)
        _refuse_to_mix(known.parts[0], part)
    if known.kind is None:
        return
    least = known.kind.least_row + known.traits.growth
    if seq_len < least:
        raise ConfigError(f"packing.seq_len = {seq_len}: rows of {objective.kind} need at least {least}")
    known.kind.refuse(objective, seq_len, num_sentinels)


def refuse_begun_documents(objective: Objective) -> None:
    """Refuse documents that a special id begins, if an objective frames its rows itself.

    Raises:
        ConfigError: it does.
    """
    if not traits_of(objective).may_begin:
        raise ConfigError(
            f"kind = {objective.kind!r} frames its rows itself, so no special id may begin its"
            " documents; leave framing.preset and framing.begin out, or give this dataset a run of its"
            " own"
        )


def refuse_framed_rows(objective: Objective, *, seq_len: int, begun: bool) -> None:
    """Refuse to frame the rows of an objective that frames them itself, or rows too short for a frame.

    Raises:
        ConfigError: says which.
    """
    if not traits_of(objective).may_begin:
        raise ConfigError(
            f"kind = {objective.kind!r} frames its rows itself, so framing.per = 'row' cannot; leave"
            " framing.per out, or give this dataset a run of its own"
        )
    least = 2 + begun
    if seq_len < least:
        raise ConfigError(
            f"packing.seq_len = {seq_len}: a row that framing.per = 'row' puts ids around holds at least"
            f" {least}, of which one is text; raise it"
        )


def _refuse_to_mix(first: ResolvedObjective, other: ResolvedObjective) -> None:
    """Refuse components whose rows a trainer could not take as one batch."""
    one, two = first.traits, other.traits
    why = two.written_for
    if why:
        raise ConfigError(
            f"components: {other.config.kind} with these settings is written out by epochs, for {why}; a"
            " mixture draws rows when they are read, so make it a dataset of its own"
        )
    if one.sections or two.sections:
        raise ConfigError(
            "components: the sections of a source lay out rows of their own, or say what has a loss, and"
            ' a mixture lays out its own; set split to "drawn" or loss to "all", or make a dataset of it'
        )
    for name in ("attention", "label_convention", "single", "growth"):
        a, b = getattr(one, name), getattr(two, name)
        if a != b:
            raise ConfigError(
                f"components: {first.config.kind} has {name} = {a!r}, but {other.config.kind} has {b!r};"
                " a mixture needs the same of all, so make datasets of their own"
            )


_ADAPTER: TypeAdapter[Objective] = TypeAdapter(AnyObjective)


def read_objective(content: Mapping[str, object]) -> Objective:
    """Return the objective that a manifest names.

    Raises:
        FormatError: no objective known here, or a parameter that it cannot have.
    """
    try:
        return _ADAPTER.validate_python({k: v for k, v in content.items() if k != "form"})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, ("objective", *first["loc"])))
        raise FormatError(
            f"{place}: {first['msg']}; this reader knows the kinds {', '.join(KINDS)}"
        ) from error
