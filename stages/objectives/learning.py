"""The settings of the learning check, and what each kind of objective has of its own.

The bounds were set from the measurements in `stages.verify.learning` and docs/verification.md.
"""

from pydantic import Field

from stages.config import Config


class LearningConfig(Config):
    """Sizes and gates of the learning check; what is not set depends on the objective."""

    learning: bool = True
    """Whether a model is trained on the shards. Without it, only the exact checks decide."""

    full: bool = False
    """Train three more models: two on the labels with other seeds, and one on labels rebuilt from the
    stored tokens. Training then takes about 2.5 times as long."""

    max_ids: int | None = Field(None, ge=2)
    """Ids the tiny model knows, the unknown id of all rarer ones among them. Defaults of each objective:
    docs/verification.md."""

    row_length: int = Field(64, ge=8)
    """Tokens in a window; rows are cut into windows of this length."""

    batch_rows: int | None = Field(None, ge=1)
    """Windows in a training step. Defaults: docs/verification.md."""

    labelled_tokens: int | None = Field(None, ge=1)
    """Labelled tokens to train on, as many for the control. Defaults: docs/verification.md."""

    max_epochs: float = Field(4.0, gt=0)
    """Most times that the training slice is repeated to reach labelled_tokens. Masks are drawn again
    each time."""

    # Least gain and order ablation of correct causal rows over 3 seeds: 0.33 and 0.39 with 5,800
    # labels, 0.26 and 0.43 with 11,500, 0.69 and 1.00 with 20,000. Least gain of correct masked rows
    # over 2 seeds and 2 corpora: 0.08 with 20,000 labels, 0.16 with 30,000, 0.36 with 60,000.
    min_labelled_tokens: int | None = Field(None, ge=1)
    """Fewest labelled tokens in the training slice for which the gates mean anything. Defaults:
    docs/verification.md."""

    min_heldout_tokens: int = Field(2_000, ge=1)
    """Fewest labelled tokens in the held-out slice."""

    heldout_rows: int = Field(400, ge=1)
    """Most held-out windows on which losses are measured."""

    learning_rate: float | None = Field(None, gt=0)
    """Highest learning rate, at the end of the warm-up. Defaults: docs/verification.md."""

    warmup_steps: int = Field(20, ge=0)
    """Steps over which the learning rate rises to its highest."""

    min_gain: float | None = Field(None, ge=0)
    """Least fall of the held-out loss below the unigram entropy, in nats. Defaults:
    docs/verification.md."""

    min_gain_ratio: float = Field(5.0, ge=0)
    """Least gain, as a multiple of the control's."""

    leak_floor: float = Field(0.25, ge=0)
    """Share of the unigram entropy under which a loss means that the inputs show the labels."""

    min_order_ablation: float | None = Field(None, ge=0)
    """Least rise of the held-out loss, in nats, when tokens are shuffled within their documents. Some
    objectives have no such gate. Defaults: docs/verification.md."""


class LearningSettings(LearningConfig):
    """The settings of one objective's check; none is left open.

    A kind decides the fields of this class, and those above whose default is None. Of the others the run
    file's default counts.
    """

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


NEXT_TOKENS = LearningSettings(min_order_ablation=0.3)
PROMPTED_TOKENS = LearningSettings(max_ids=1024, labelled_tokens=60_000, min_order_ablation=0.3)
MASKED_TOKENS = LearningSettings(
    batch_rows=32,
    labelled_tokens=60_000,
    min_labelled_tokens=30_000,
    label_share=0.15,
    learning_rate=5e-3,
)
TARGET_TOKENS = LearningSettings(max_ids=1024, batch_rows=32, labelled_tokens=60_000)
"""What kinds start from that ask for the next token, for it behind a prompt, for masked tokens, or for a
decoder's targets."""
