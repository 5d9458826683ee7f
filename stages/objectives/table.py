"""The objectives that exist: their configs, what a manifest says of them, how their rows are laid out.

Whoever adds one adds its config to `Objective`, a case to `traits_of` and one to
`stages.objectives.drawing`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, assert_never

from pydantic import Field, TypeAdapter, ValidationError

from stages.config import Config
from stages.errors import ConfigError, FormatError
from stages.objectives.bart import BART, widths_bart
from stages.objectives.clm import CausalLM
from stages.objectives.electra import Generator, ReplacedTokens
from stages.objectives.fim import FIM, GROWTH
from stages.objectives.fim_characters import GROWTH as CHARACTER_GROWTH
from stages.objectives.mixture import Mixture, choose_mixed
from stages.objectives.mlm import MaskedLM, Selection
from stages.objectives.prefix_lm import PrefixLM, prefix_widths
from stages.objectives.rows import Widths
from stages.objectives.sentence_pairs import LEAST_PAIR, NextSentence, SentenceOrder, pair_widths
from stages.objectives.simcse import SimCSE, widths_of_views
from stages.objectives.span_corruption import SpanCorruption, refuse_sentinels, span_lengths
from stages.objectives.ul2 import (
    UL2,
    choose_denoiser,
    denoisers,
    refuse_sentinels_ul2,
    widths_ul2,
)

Objective = Annotated[
    BART
    | CausalLM
    | FIM
    | MaskedLM
    | Mixture
    | NextSentence
    | PrefixLM
    | ReplacedTokens
    | SentenceOrder
    | SimCSE
    | SpanCorruption
    | UL2,
    Field(discriminator="kind"),
]
"""The config of any objective; `kind` says which."""

TARGETS, PAIRS = "targets", "pairs"
"""The label conventions of encoder-decoders, and of views that belong together."""
KINDS: dict[str, type[Config]] = {
    "bart": BART,
    "clm": CausalLM,
    "electra": ReplacedTokens,
    "fim": FIM,
    "mixture": Mixture,
    "mlm": MaskedLM,
    "nsp": NextSentence,
    "prefix_lm": PrefixLM,
    "simcse": SimCSE,
    "sop": SentenceOrder,
    "span_corruption": SpanCorruption,
    "ul2": UL2,
}


@dataclass(frozen=True)
class Traits:
    """What follows from an objective's config."""

    attention: str
    """Who may attend to whom; no mask is stored, it follows from segments and lengths."""
    label_convention: str
    """unshifted: labels[t] is input_ids[t]; masked: the token that stood at t before it was masked;
    targets: what the decoder is to give at t; replaced: 1 where a token was replaced; pairs: none, a
    row's views belong together."""
    dynamic: bool = True
    """Whether another epoch gives other columns of the same stored row."""
    single: bool = False
    """Whether a row holds one piece of a document."""
    growth: int = 0
    """Tokens by which each segment of a row may grow when it is transformed."""
    words: bool = False
    """Whether drawing needs to know which ids begin a word."""
    unigram: bool = False
    """Whether drawing needs to know how frequent ids are."""
    beyond: str = ""
    """What drawing needs beyond the rows, so that only epochs on disk open; nothing for most kinds."""
    sentences: bool = False
    """Whether drawing needs to know where sentences end."""
    sections: int = 0
    """Sections of a document that rows are laid out by: so many, or -1 for any number; 0 if none are."""

    @property
    def form(self) -> str:
        """row, if any epoch can be drawn from a row and what stands beside it; else materialised."""
        return "materialised" if self.beyond else "row"


def traits_of(objective: Objective) -> Traits:  # noqa: C901, PLR0911  # one for each layout
    """Give what follows from an objective's config."""
    match objective:
        case CausalLM():
            return Traits("causal_within_document", "unshifted", dynamic=False)
        case FIM(level="character"):
            return Traits(
                "causal_within_document",
                "unshifted",
                growth=CHARACTER_GROWTH,
                beyond="parts of the text are encoded anew by the tokenizer",
            )
        case FIM():
            return Traits("causal_within_document", "unshifted", growth=GROWTH)
        case NextSentence() | SentenceOrder():
            return Traits(
                "bidirectional_within_document",
                "masked",
                words=objective.mask.selection in (Selection.WHOLE_WORD, Selection.NGRAM),
                beyond="pairs are built of the sentences of whole documents",
                sentences=True,
            )
        case PrefixLM():
            alone = objective.architecture == "decoder_only"
            return Traits(
                "prefix" if alone else "encoder_decoder",
                "unshifted" if alone else TARGETS,
                single=not objective.pack_rows,
                sections=-1 if objective.split == "source" else 0,
            )
        case BART() if objective.permute_probability:
            return Traits(
                "encoder_decoder",
                TARGETS,
                single=not objective.pack_rows,
                beyond="sentences change places, and rows do not say where they end",
                sentences=True,
            )
        case BART() | SpanCorruption() | UL2():
            return Traits("encoder_decoder", TARGETS, single=not objective.pack_rows)
        case SimCSE():
            drawn = objective.views == "cropped" and objective.crop_ratio < 1.0
            sections = objective.num_views if objective.from_source else 0
            return Traits("bidirectional", PAIRS, dynamic=drawn, single=True, sections=sections)
        case ReplacedTokens():
            return Traits(
                "bidirectional_within_document",
                "replaced",
                unigram=objective.generator is Generator.UNIGRAM,
                beyond="a model draws the replacements" if objective.model else "",
            )
        case Mixture():
            return _mixed([traits_of(part.objective) for part in objective.components])
        case MaskedLM():
            words = objective.selection in (Selection.WHOLE_WORD, Selection.NGRAM)
            return Traits("bidirectional_within_document", "masked", words=words)
        case _:
            assert_never(objective)


def _mixed(parts: Sequence[Traits]) -> Traits:
    """Give the traits of a mixture; those that its components must share are the first one's."""
    return replace(
        parts[0],
        dynamic=any(part.dynamic for part in parts),
        words=any(part.words for part in parts),
        unigram=any(part.unigram for part in parts),
    )


def widths_of(objective: Objective, seq_len: int) -> Widths:  # noqa: PLR0911  # one for each layout
    """Give how many tokens rows hold, on disk and as a trainer gets them."""
    match objective:
        case BART():
            return widths_bart(objective, seq_len)
        case PrefixLM():
            return prefix_widths(objective, seq_len)
        case SpanCorruption():
            return span_lengths(objective, seq_len)
        case UL2():
            return widths_ul2(objective, seq_len)
        case Mixture():
            each = component_widths(objective, seq_len)
            return Widths(max(w.stored for w in each), seq_len, max(w.labels for w in each))
        case NextSentence() | SentenceOrder():
            return pair_widths(seq_len)
        case SimCSE():
            return widths_of_views(objective, seq_len)
        case CausalLM() | FIM() | MaskedLM() | ReplacedTokens():
            return Widths(seq_len, seq_len, seq_len)
        case _:
            assert_never(objective)


def refuse_impossible(objective: Objective, *, seq_len: int, num_sentinels: int) -> None:
    """Refuse rows that an objective cannot be made of.

    Raises:
        ConfigError: the rows are too short, or need more sentinels than there are.
    """
    widths_of(objective, seq_len)
    least = LEAST_PAIR if isinstance(objective, NextSentence | SentenceOrder) else 1
    least += traits_of(objective).growth
    if seq_len < least:
        raise ConfigError(f"packing.seq_len = {seq_len}: rows of {objective.kind} need at least {least}")
    if isinstance(objective, SpanCorruption):
        refuse_sentinels(objective, seq_len, num_sentinels)
    if isinstance(objective, UL2):
        refuse_sentinels_ul2(objective, seq_len, num_sentinels)

    if isinstance(objective, Mixture):
        for part in objective.components:
            refuse_impossible(part.objective, seq_len=seq_len, num_sentinels=num_sentinels)
            _refuse_to_mix(objective.components[0].objective, part.objective)


def _refuse_to_mix(first: Objective, other: Objective) -> None:
    """Refuse components whose rows a trainer could not take as one batch."""
    one, two = traits_of(first), traits_of(other)
    if two.beyond:
        raise ConfigError(
            f"components: {other.kind} with these settings is written out by epochs, for {two.beyond};"
            " a mixture draws rows when they are read, so make it a dataset of its own"
        )
    if one.sections or two.sections:
        raise ConfigError(
            "components: the sections of a source lay out rows of their own, and those of a mixture are"
            ' its own; set split to "drawn", or make a dataset of it'
        )
    for name in ("attention", "label_convention", "single", "growth"):
        a, b = getattr(one, name), getattr(two, name)
        if a != b:
            raise ConfigError(
                f"components: {first.kind} has {name} = {a!r}, but {other.kind} has {b!r}; a mixture"
                " needs the same of all, so make datasets of their own"
            )


def components_of(objective: Objective) -> tuple[Objective, ...]:
    """Give the components of a mixture in their order; none if it is no mixture."""
    if isinstance(objective, UL2):
        return tuple(part.objective for part in denoisers(objective))
    return tuple(p.objective for p in objective.components) if isinstance(objective, Mixture) else ()


def component_widths(objective: Objective, seq_len: int) -> tuple[Widths, ...]:
    """Give the widths of the rows of each component of a mixture; none if it is no mixture."""
    return tuple(widths_of(part, seq_len) for part in components_of(objective))


def choose_component(hashed: int, objective: Objective) -> int:
    """Give the component of a mixture that a document copy's hash chooses; 0 if it is no mixture."""
    if isinstance(objective, UL2):
        return choose_denoiser(hashed, objective)
    return choose_mixed(hashed, objective) if isinstance(objective, Mixture) else 0


_ADAPTER: TypeAdapter[Objective] = TypeAdapter(Objective)


def read_objective(content: Mapping[str, object]) -> Objective:
    """Give the objective that a manifest names.

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
