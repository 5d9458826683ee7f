"""Stages of a curriculum in a trainer: what it has for them, in words and as lines to paste.

Each format says it by one function of the stages and their folder. What stands there was read in the
source code or the documentation of the trainer. A trainer that goes from one dataset to the next by
itself gets its settings; with all others a stage is a training of its own, which begins with the last
checkpoint of the stage before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from stages.export.source import ExportSource
from stages.store.manifest import Manifest

TRAIN = "train"


@dataclass(frozen=True)
class ExportedStage:
    """A dataset that is one stage, in a folder of its own that has its name.

    Args:
        name: of the dataset.
        sources: its splits.
    """

    name: str
    sources: Sequence[ExportSource]

    @property
    def manifest(self) -> Manifest:
        """Of its first split, which is training if it was exported."""
        return self.sources[0].manifest

    def place(self, folder: str) -> str:
        """Return the folder of its first split."""
        return f"{folder}/{self.name}/{self.sources[0].split}"


@dataclass(frozen=True)
class TrainerStages:
    """What a trainer has for stages.

    Args:
        notes: sentences.
        lines: to paste; empty if there are none.
        language: of the lines, as Markdown names it.
    """

    notes: tuple[str, ...]
    lines: str = ""
    language: str = "text"


def stage_by_stage(_: Sequence[ExportedStage], __: str) -> TrainerStages:
    """Return what holds of any trainer."""
    return TrainerStages(
        (
            (
                "These files say nothing of stages: train on the first folder, then begin with the last"
                " checkpoint and train on the next."
            ),
        )
    )


def same_length(stages: Sequence[ExportedStage]) -> bool:
    """Say whether rows of all stages are of one length."""
    return len({stage.manifest.seq_len for stage in stages}) == 1


def windows(stage: ExportedStage) -> int:
    """Return how many windows of a row and one token more lie in the files of a stage, one a shard."""
    return sum(shard.tokens // (stage.manifest.seq_len + 1) for shard in stage.manifest.shards)
