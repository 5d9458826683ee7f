"""Learn: one task a dataset: a tiny model is trained on its rows, and what that shows is checked.

The checks are `stages.verify.dataset_check`'s. A task trains on a GPU where torch has one.
"""

from dataclasses import dataclass

from pydantic import ConfigDict, model_validator

from pipeline.engine.tasks import Workspace
from pipeline.steps.records import UnitRecord
from stages.config import canonical_json
from stages.objectives.learning import LearningConfig


class LearnedRecord(UnitRecord):
    """What training showed: every number of `stages.verify.dataset_check`."""

    model_config = ConfigDict(extra="allow")
    passed: bool

    @model_validator(mode="before")
    @classmethod
    def _finite(cls, content: object) -> object:
        canonical_json(content)  # which refuses NaN and infinity, of fields without a type too
        return content


@dataclass(frozen=True)
class LearningCheck:
    """One dataset to learn from."""

    dataset: str
    splits: tuple[str, ...]
    config: LearningConfig
    seed: int
    inside: bool = False
    """Whether EOS stands inside of documents, as it closes answers of dialogues."""


def learn(workspace: Workspace, work: LearningCheck) -> LearnedRecord:
    """Train on a dataset, check what can be checked by training, and say what came out."""
    import torch  # noqa: PLC0415  # seconds to import, and only this task needs it

    from stages.verify.dataset_check import check_dataset  # noqa: PLC0415  # likewise
    from stages.verify.training import Machine  # noqa: PLC0415  # likewise

    cuda = torch.cuda.is_available()
    checked = check_dataset(
        workspace.path(f"datasets/{work.dataset}"),
        splits=work.splits,
        config=work.config,
        seed=work.seed,
        inside=work.inside,
        machine=Machine("cuda" if cuda else "cpu", bfloat16=cuda),
    )
    return LearnedRecord.model_validate(checked.record)
