"""The gates of the learning check: its settings, what it measures, and the bounds it is held to.

Free of torch, so that reading a run file imports none. The bounds were set from the measurements in
`stages.verify.learning` and docs/verification.md.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

from pydantic import Field

from stages.config import Config
from stages.objectives.electra import Generator, ReplacedTokens
from stages.objectives.mixture import Mixture
from stages.objectives.prefix_lm import PrefixLM
from stages.objectives.table import Objective


class LearningConfig(Config):
    """Sizes and gates of the learning check; what is not set depends on the objective."""

    learning: bool = True
    """Whether a model is trained on the shards; if not, the exact checks decide alone."""

    full: bool = False
    """Whether two more models are trained on the labels, and one on labels that are put together anew
    from the stored tokens: as much again, and half as much."""

    max_ids: int | None = Field(None, ge=2)
    """Ids the tiny model knows, the unknown id of all rarer ones among them: 2,048 for clm, masks
    and simcse, else 1,024."""

    row_length: int = Field(64, ge=8)
    """Tokens in a window; rows are cut into windows of this length."""

    batch_rows: int | None = Field(None, ge=1)
    """Windows in a training step: 32 for masks and for decoders' targets, else 16."""

    labelled_tokens: int | None = Field(None, ge=1)
    """Labelled tokens to train on, as many for the control: 125,000 for clm and fim, 100,000 for
    electra, else 60,000."""

    max_epochs: float = Field(4.0, gt=0)
    """Most times that the training slice is repeated to reach labelled_tokens; masks are drawn anew
    each time."""

    # Least gain and order ablation of correct causal rows over 3 seeds: 0.33 and 0.39 with 5,800
    # labels, 0.26 and 0.43 with 11,500, 0.69 and 1.00 with 20,000. Least gain of correct masked rows
    # over 2 seeds and 2 corpora: 0.08 with 20,000 labels, 0.16 with 30,000, 0.36 with 60,000.
    min_labelled_tokens: int | None = Field(None, ge=1)
    """Fewest labelled tokens in the training slice for which the gates mean anything: 30,000 for masks,
    else 20,000."""

    min_heldout_tokens: int = Field(2_000, ge=1)
    """Fewest labelled tokens in the held-out slice."""

    heldout_rows: int = Field(400, ge=1)
    """Most held-out windows on which losses are measured."""

    learning_rate: float | None = Field(None, gt=0)
    """Highest learning rate, at the end of the warm-up: 0.005 for masks and electra,
    0.002 for simcse, else 0.01."""

    warmup_steps: int = Field(20, ge=0)
    """Steps over which the learning rate rises to its highest."""

    min_gain: float | None = Field(None, ge=0)
    """Least fall of the held-out loss below the unigram entropy, in nats: 0.03 for electra, else
    0.10."""

    min_gain_ratio: float = Field(5.0, ge=0)
    """Least gain, as a multiple of the control's."""

    leak_floor: float = Field(0.25, ge=0)
    """Share of the unigram entropy under which a loss means that the inputs show the labels."""

    min_order_ablation: float | None = Field(None, ge=0)
    """Least rise of the held-out loss, in nats, when tokens are shuffled within their documents: 0.3
    for clm, fim and prefix_lm; the others have no such gate."""


class LearningSettings(LearningConfig):
    """The settings of one objective's check; none is left open."""

    max_ids: int = Field(2048, ge=2)
    batch_rows: int = Field(16, ge=1)
    labelled_tokens: int = Field(125_000, ge=1)
    min_labelled_tokens: int = Field(20_000, ge=1)
    learning_rate: float = Field(1e-2, gt=0)
    min_gain: float = Field(0.10, ge=0)
    label_share: float = Field(1.0, gt=0, le=1)
    """Share of the tokens that labels are usual on: more labels than that shorten no training, or labels
    on all tokens would be too soon done to be learned by heart."""
    gated: bool = True
    """Whether the loss is held to gates; if not, it is reported."""


_NEXT = LearningSettings(min_order_ablation=0.3)
_PREFIX = LearningSettings(max_ids=1024, labelled_tokens=60_000, min_order_ablation=0.3)
_MASKED = LearningSettings(
    batch_rows=32,
    labelled_tokens=60_000,
    min_labelled_tokens=30_000,
    label_share=0.15,
    learning_rate=5e-3,
)
_TARGETS = LearningSettings(max_ids=1024, batch_rows=32, labelled_tokens=60_000)
_REPLACED = LearningSettings(max_ids=1024, labelled_tokens=100_000, learning_rate=5e-3, min_gain=0.03)

SETTINGS = {
    "clm": _NEXT,
    "fim": _NEXT.model_copy(update={"max_ids": 1024}),
    "prefix_lm": _PREFIX,
    "mlm": _MASKED,
    "electra": _REPLACED,
    "likely": _REPLACED.model_copy(update={"gated": False}),
    "span_corruption": _TARGETS,
    "ul2": _TARGETS,
    "bart": _TARGETS.model_copy(update={"gated": False}),
    "seq2seq": _TARGETS,
    "nsp": _MASKED.model_copy(update={"gated": False}),
    "sop": _MASKED.model_copy(update={"gated": False}),
    "simcse": LearningSettings(labelled_tokens=2_000, learning_rate=2e-3, gated=False),
}
"""What each kind of objective is checked with where a run file sets nothing; `seq2seq` is prefix_lm for
an encoder with a decoder; `likely` is electra whose replacements are frequent ids or a model's: minutes
teach a tiny model too little of them (gains of 0.004 to 0.023 nats over 5 seeds)."""


def settings_for(kind: str, config: LearningConfig) -> LearningSettings:
    """Give what the run file sets, and for the rest what a kind of `SETTINGS` has of its own."""
    return SETTINGS[kind].model_copy(update=config.model_dump(exclude_none=True))


def settings_of(objective: Objective, config: LearningConfig) -> LearningSettings:
    """Give what the run file sets, and for the rest what an objective's check has of its own.

    A mixture is learned as its first component is, and held to what all of them are held to.
    """
    match objective:
        case Mixture():
            parts = [settings_of(part.objective, config) for part in objective.components]
            orders = [p.min_order_ablation for p in parts if p.min_order_ablation is not None]
            bounds = {
                "gated": all(part.gated for part in parts),
                "min_gain": min(part.min_gain for part in parts),
                "min_order_ablation": min(orders) if len(orders) == len(parts) else None,
            }
            return parts[0].model_copy(update=bounds)
        case PrefixLM(architecture="encoder_decoder"):
            return settings_for("seq2seq", config)
        case ReplacedTokens() if objective.generator is not Generator.UNIFORM:
            return settings_for("likely", config)
    return settings_for(objective.kind, config)


@dataclass(frozen=True)
class Gate:
    """One measured value, its bound, and whether it is on the right side of it; NaN never is."""

    name: str
    value: float
    bound: float
    passed: bool
    relation: Literal["at least", "at most"] = "at least"


def at_least(name: str, value: float, bound: float) -> Gate:
    """Give a gate that larger values pass."""
    return Gate(name, value, bound, passed=value >= bound)


def at_most(name: str, value: float, bound: float) -> Gate:
    """Give a gate that smaller values pass."""
    return Gate(name, value, bound, passed=value <= bound, relation="at most")


@dataclass(frozen=True)
class LearningResult:
    """What the check measured, losses in nats per label, and the gates it was held to."""

    unigram_entropy: float
    loss: float
    control_loss: float
    gain: float
    control_gain: float
    order_ablation: float
    finite_share: float
    labelled_tokens: int
    steps: int
    tokens_per_second: float = field(compare=False)
    curve: tuple[tuple[int, float], ...]
    control_curve: tuple[tuple[int, float], ...]
    apart_loss: float | None = None
    """Of EOS and sentinels, which the loss above leaves out; None without them."""
    gates: tuple[Gate, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every gate passed."""
        return all(gate.passed for gate in self.gates)

    def to_dict(self) -> dict[str, object]:
        """Give the result in the types of JSON; a number that is not finite becomes null."""
        return to_json(asdict(self) | {"passed": self.passed})


def to_json(values: Mapping[str, object]) -> dict[str, object]:
    """Give values in the types of JSON; a number that is not finite becomes null."""
    record: dict[str, object] = json.loads(json.dumps(values), parse_constant=lambda _: None)
    return record


def gates(result: LearningResult, config: LearningSettings) -> tuple[Gate, ...]:
    """Hold what was measured to its bounds."""
    finite = at_least("finite_share", result.finite_share, 1.0)
    if not config.gated:
        return (finite,)
    control_gain = max(result.control_gain, 0.0)  # in this order NaN stays NaN, which no gain reaches
    held = [
        at_least("gain", result.gain, config.min_gain),
        at_least("gain_over_control", result.gain, config.min_gain_ratio * control_gain),
        at_least("leak_floor", result.loss, config.leak_floor * result.unigram_entropy),
        finite,
    ]
    if config.min_order_ablation is not None:
        held.insert(3, at_least("order_ablation", result.order_ablation, config.min_order_ablation))
    return tuple(held)
