"""Material: what the rows of a shard are drawn with, of kinds that need more than the rows."""

from dataclasses import dataclass

from stages.objectives.electra.generated import Generate
from stages.objectives.fim.characters import Spelling
from stages.objectives.whole_shard import WholeShard


@dataclass(frozen=True)
class Material:
    """What the rows of a shard are drawn with."""

    shard: WholeShard
    spelling: Spelling | None = None
    """Of the tokenizer, if text is to be cut."""
    generate: Generate | None = None
    """The model of an objective that asks one."""
