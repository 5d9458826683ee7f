"""The objectives that exist: their configs, what a manifest says of them, what they make of rows.

Whoever adds one adds its config to `Objective`, a line to `TRAITS` and a case to `training_columns`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, assert_never

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, TypeAdapter, ValidationError

from stages.config import Config
from stages.errors import FormatError
from stages.objectives.clm import CausalLM, causal_labels
from stages.objectives.mlm import MaskedLM, mask_tokens
from stages.objectives.rows import StoredRows
from stages.objectives.vocabulary import Vocabulary

Objective = Annotated[CausalLM | MaskedLM, Field(discriminator="kind")]


@dataclass(frozen=True)
class Traits:
    """What is the same for all datasets of one kind."""

    config: type[Config]
    attention: str
    """Who may attend to whom; no mask is stored, it follows from the segments."""
    label_convention: str
    """unshifted: labels[t] is input_ids[t]; masked: the token that stood at t before it was masked."""
    dynamic: bool
    """Whether another epoch gives other columns of the same stored row."""


TRAITS = {
    "clm": Traits(CausalLM, "causal_within_document", "unshifted", dynamic=False),
    "mlm": Traits(MaskedLM, "bidirectional_within_document", "masked", dynamic=True),
}

_ADAPTER: TypeAdapter[CausalLM | MaskedLM] = TypeAdapter(Objective)


def read_objective(content: Mapping[str, str | int | float | bool]) -> CausalLM | MaskedLM:
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
            f"{place}: {first['msg']}; this reader knows the kinds {', '.join(TRAITS)}"
        ) from error


def training_columns(
    rows: StoredRows, objective: CausalLM | MaskedLM, vocabulary: Vocabulary
) -> dict[str, NDArray[np.int64]]:
    """Give the columns that a trainer gets of some rows, each (N, L) int64."""
    match objective:
        case CausalLM():
            labels = causal_labels(rows.input_ids, rows.segment_ids, objective)
            return {"input_ids": rows.input_ids, "labels": labels}
        case MaskedLM():
            input_ids, labels = mask_tokens(rows, objective, vocabulary)
            return {"input_ids": input_ids, "labels": labels}
        case _:
            assert_never(objective)
