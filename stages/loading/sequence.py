"""Stages of a curriculum: datasets walked one after the other, with one place that is saved.

    stages        general, 8 rows a batch, 1 epoch         anneal, 4 rows a batch, 100 steps
    batches       | 8 | 8 | 8 | ... | end of the stage |   | 4 | 4 | 4 | ... |
    walk.stage    "general"                                "anneal"

Within a stage rows come without a gap: epochs follow each other, and each row of each is given. What
becomes of the last rows of a stage, which may not fill a step, says `last`. No batch has rows of two
stages. A batch is a function of the place and of a step's number, as in `Batches`, which reads it.

A place is a stage, how many rows of it are through, and for stages that last `steps` how many of these.
A state says besides what the stages up to there were: what is through cannot change, what is ahead may.
"""

import operator
from collections.abc import Mapping
from collections.abc import Sequence as Several
from pathlib import Path
from typing import NamedTuple, get_args

from stages.errors import ConfigError
from stages.loading.arguments import one_of, whole_number
from stages.loading.batches import Last
from stages.loading.dataset import Batch
from stages.loading.grown import open_dataset
from stages.loading.resumable import BatchesState, ResumableBatches, read_field
from stages.loading.shared_number import MAX_NUMBER
from stages.loading.stage import Stage, StagePosition, StageSteps
from stages.seeding import MAX_EPOCHS

_STATE_VERSION = 1


class SequencePosition(NamedTuple):
    """Where a sequence stands."""

    stage: int
    """The one that the last batch was of; before the first batch, the first."""
    row: int
    """Rows of it that are through, counted from its epoch 0."""
    step: int
    """Steps of it that are through, if it lasts steps; else 0."""

    @property
    def within(self) -> StagePosition:
        """Where its stage stands."""
        return StagePosition(self.row, self.step)


class Sequence(ResumableBatches):
    """The batches of one rank, stage after stage; iterating moves it to the end of the last stage.

    `sequence[n]` gives the n-th batch from here and does not move the position. So it is a map-style
    dataset of complete batches. `len(sequence)` counts the batches that are left in all stages.

    Args:
        stages: in their order.
        rank: this process among those that train together.
        world_size: the number of these processes.
        last: what happens to the last rows of a stage, if they do not fill a step. They are left out
            (drop), or padding is added (pad), or the next rows of their own dataset (carry).

    Raises:
        ConfigError: no stage, one without a step or with two lengths, two of one name, of two
            tokenizers, or with epochs that cannot be read.
    """

    def __init__(
        self, stages: Several[Stage], *, rank: int = 0, world_size: int = 1, last: Last = "drop"
    ) -> None:
        super().__init__()
        self.last = one_of("last", last, get_args(Last))
        self._stages = [
            _opened_stage(number, stage, rank=rank, world_size=world_size, last=self.last)
            for number, stage in enumerate(stages)
        ]
        _refuse_together(self._stages)
        self._steps_end = 1 + max(stage.steps for stage in self._stages)
        self._rows_end = MAX_NUMBER // (len(self._stages) * self._steps_end)
        self._read = 0  # the stage that was read last in this process
        self._gave_none = False  # the last loop that began had no batch to give
        for number, stage in enumerate(self._stages):
            self._refuse_rest(number, stage.begin)
        self._go(SequencePosition(0, *self._stages[0].begin))

    @property
    def stages(self) -> tuple[str, ...]:
        """The names of all stages."""
        return tuple(stage.name for stage in self._stages)

    @property
    def stage(self) -> str:
        """The current stage: that of the batch that was given last."""
        return self._stages[self._here.stage].name

    def stage_of(self, step: int) -> str:
        """Return the stage of the batch that is so many steps ahead.

        Raises:
            IndexError: there is no such batch.
        """
        return self._stages[self._begin_of(step).stage].name

    def __len__(self) -> int:
        """Batches from here to the end of the last stage."""
        here = self._here
        ahead = sum(stage.left(stage.begin) for stage in self._stages[here.stage + 1 :])
        return self._stages[here.stage].left(here.within) + ahead

    @property
    def total(self) -> int:
        """Batches of all stages, from the first of the first stage to the last of the last."""
        return sum(stage.left(stage.begin) for stage in self._stages)

    @property
    def current_pass(self) -> int:
        """0 while batches are left, 1 after the last one."""
        return 0 if len(self) else 1

    @property
    def begins_pass(self) -> bool:
        """Whether the next batch is the first of the first stage, or none is left."""
        return not len(self) or self._here == SequencePosition(0, *self._stages[0].begin)

    def restart(self, number: int = 0) -> None:
        """Go to the first batch of the first stage; of any pass but the first, behind the last batch."""
        self._go(SequencePosition(0, *self._stages[0].begin))
        self._gave_none = False
        if number:
            self.advance(len(self))

    def begin_loop(self) -> int:
        """Return how many batches a loop that begins now gives.

        The first loop behind the last batch gives none. A second one is refused, because a trainer that
        counts steps would begin such loops for ever.

        Raises:
            ConfigError: none is left, and none was left when the last loop began.
        """
        left = len(self)
        if not left and self._gave_none:
            raise ConfigError(
                f"stages {', '.join(self.stages)}: all {self.total:,} batches were given, and a trainer"
                f" asks for more; set its max_steps to the steps that {self.total:,} batches make, or"
                " let the last stage last longer"
            )
        self._gave_none = not left
        return left

    def __getitem__(self, step: int) -> Batch:  # type: ignore[override]
        """Return the batch that is so many steps ahead."""
        at = self._begin_of(step)
        if at.stage != self._read:
            self._stages[self._read].rows.release()
            self._read = at.stage
        return self._stages[at.stage].batch(at.within)

    def padding_rows(self, step: int = 0) -> int:
        """Return how many rows of padding the batch so many steps ahead has, over all ranks."""
        at = self._begin_of(step)
        return self._stages[at.stage].padding_rows(at.within)

    def place(self, step: int = 0) -> SequencePosition:
        """Return the place after so many more batches of every rank.

        Raises:
            IndexError: there are not so many.
        """
        place, steps = self._here, operator.index(step)
        if steps < 0:
            raise IndexError(f"batch {step}: batches count from the current place")
        while steps > (left := self._stages[place.stage].left(place.within)):
            place, steps = self._next(place, step), steps - left
        return SequencePosition(place.stage, *self._stages[place.stage].after(place.within, steps))

    def _begin_of(self, step: int) -> SequencePosition:
        """Return where a batch begins, which is never the end of a stage."""
        place = self.place(step)
        return place if self._stages[place.stage].left(place.within) else self._next(place, step)

    def _next(self, place: SequencePosition, step: int) -> SequencePosition:
        """Return the beginning of the stage behind that of a place."""
        number = place.stage + 1
        if number == len(self._stages):
            raise IndexError(f"batch {step}: {len(self)} are left of the stages")
        return SequencePosition(number, *self._stages[number].begin)

    def advance(self, steps: int = 1) -> None:
        """Move ahead by some batches of every rank.

        Raises:
            IndexError: fewer batches are left.
        """
        self._go(self.place(steps))

    @property
    def _here(self) -> SequencePosition:
        number, row = divmod(self._stands.get(), self._rows_end)
        stage, step = divmod(number, self._steps_end)
        return SequencePosition(stage, row, step)

    def _go(self, place: SequencePosition) -> None:
        """Stand at a place, here and in running workers: one number, so it is never half set."""
        number = (place.stage * self._steps_end + place.step) * self._rows_end + place.row
        self._stands.set(number)

    def _refuse_rest(self, number: int, at: StagePosition) -> None:
        """Refuse a stage that cannot be walked to its end from a position on."""
        stage = self._stages[number]
        try:
            stage.refuse_epochs(at)
        except ConfigError as error:
            raise ConfigError(f"stage {number} {stage.name!r}: {error}") from error
        last = max(at.row, stage.last_row(at)) + stage.batches.rows_a_step
        if last >= self._rows_end:
            raise ConfigError(
                f"stage {number} {stage.name!r}: reads {last:,} rows, and {len(self._stages)} stages of"
                f" up to {self._steps_end - 1:,} steps have numbers for {self._rows_end:,}"
            )

    def state_dict(self, steps: int = 0) -> BatchesState:
        """Return the state to continue from, here or so many batches ahead, as plain JSON.

        It names all stages, so that its keys are the same from the first step to the last, as
        torch.distributed.checkpoint needs them. What it says of later stages is not compared when it is
        loaded.
        """
        place = self.place(steps)
        stage = self._stages[place.stage]
        epoch, position = divmod(place.row, len(stage.rows))
        state: BatchesState = {
            "version": _STATE_VERSION,
            "stage": place.stage,
            "epoch": epoch,
            "position": position,
            "step": place.step,
        }
        for number, stage in enumerate(self._stages):
            state |= {f"rows_{number}": stage.said, f"lasts_{number}": stage.lasts}
        return state

    def load_state_dict(self, state: Mapping[str, int | str]) -> None:
        """Go to the position of a state, which may be of other batch sizes or another number of ranks.

        Stages that are ahead of it may be others, and more or fewer. The stage that it is in must be of
        the same rows. It may last longer, or less long, but no less than it has lasted already.

        Raises:
            ConfigError: the state is not valid, or of other stages; the message says which.
        """
        if not isinstance(state, Mapping):
            raise ConfigError(f"state = {state!r}: must be what state_dict() gave")
        if state.get("version") != _STATE_VERSION or "stage" not in state:
            raise ConfigError(
                f"state: version {state.get('version')}, stage {state.get('stage')}; this reader knows"
                f" states of a Sequence, version {_STATE_VERSION}"
            )
        number, epoch, position, step = (
            whole_number(f"state: {name}", read_field(state, name))
            for name in ("stage", "epoch", "position", "step")
        )
        if not 0 <= number < len(self._stages):
            raise ConfigError(
                f"state: is in stage {number}, but there are {len(self._stages)}, counted from 0:"
                f" {', '.join(self.stages)}; stages that were begun must be there"
            )
        for before in range(number + 1):
            self._refuse_other(before, state, through=before < number)
        rows = len(self._stages[number].rows)
        place = SequencePosition(number, epoch * rows + position, step)
        if not 0 <= epoch < MAX_EPOCHS or not 0 <= position < rows or step < 0:
            raise ConfigError(f"state: epoch {epoch}, position {position:,}, step {step}: is no place")
        self._go(self._fitting(place, str(read_field(state, f"lasts_{number}"))))
        self._gave_none = False

    def _refuse_other(self, number: int, state: Mapping[str, int | str], *, through: bool) -> None:
        """Refuse a state of which a stage was of other rows, or lasted otherwise and is through."""
        stage, rows = self._stages[number], str(read_field(state, f"rows_{number}"))
        lasts = read_field(state, f"lasts_{number}")
        if not stage.is_said(rows):
            raise ConfigError(
                f"state: its stage {number} has {rows}, but {stage.name!r} has {stage.said}; stages that"
                " were begun must be as they were when the state was saved. If the run has grown since,"
                " open_dataset(..., generations=N) reads the first N generations alone"
            )
        if through and lasts != stage.lasts:
            raise ConfigError(
                f"state: its stage {number} lasted {lasts} and is through, but {stage.name!r} lasts"
                f" {stage.lasts}; only the stage that a state is in may last longer, and later ones"
            )

    def _fitting(self, place: SequencePosition, lasted: str) -> SequencePosition:
        """Return a place of a state whose stage lasted so long, as it is if it still lasts so long."""
        stage = self._stages[place.stage]
        if stage.lasts != lasted:
            if stage.steps and not lasted.startswith("steps"):
                raise ConfigError(
                    f"state: {stage.name!r} lasted {lasted}, so its steps were not counted, but now it"
                    f" lasts {stage.lasts}; let it last epochs or tokens"
                )
            place = place if stage.steps else place._replace(step=0)
            if place.step > stage.steps or (stage.end is not None and place.row > stage.end):
                given = (
                    f"{place.step:,} steps" if stage.steps else f"{place.row - stage.begin.row:,} rows"
                )
                raise ConfigError(
                    f"state: {stage.name!r} has given {given} already, more than {stage.lasts}; let it"
                    " last that long at least"
                )
        if place.row < stage.begin.row or place.step > stage.steps:
            raise ConfigError(f"state: epoch, position and step of {stage.name!r} are no place of it")
        self._refuse_rest(place.stage, place.within)
        return place


def open_sequence(
    folder: str | Path,
    datasets: Several[str],
    batch_size: int | Several[int],
    *,
    rank: int = 0,
    world_size: int = 1,
    last: Last = "drop",
    window: int | None = None,
) -> Sequence:
    """Open datasets of a run as stages of one epoch each; `Sequence` takes stages of any length.

    Args:
        folder: of the run, or its URL in a store.
        datasets: their names, in the order of the stages.
        batch_size: rows of a batch of each rank, or one number for each stage.
        rank: this process among those that train together.
        world_size: how many they are.
        last: what becomes of the rows at the end of a stage that do not fill a step.
        window: of each dataset, as of `open_dataset`. The cache must hold each stage by itself, because
            files of a stage that is through give way to those of the next one.

    Raises:
        ConfigError: no such dataset, a cache that is too small, or stages that do not go together.
        FormatError: a dataset is not whole, or was changed.
    """
    if isinstance(datasets, str):
        raise ConfigError(f"datasets = {datasets!r}: must be a list of names")
    sizes = list(batch_size) if isinstance(batch_size, Several) else [batch_size] * len(datasets)
    if len(sizes) != len(datasets):
        raise ConfigError(
            f"batch_size = {sizes}: {len(datasets)} stages need one number, or as many as they are"
        )
    place = str(folder).rstrip("/") + "/datasets"
    opened = [open_dataset(f"{place}/{name}", window=window) for name in datasets]
    stages = [Stage(rows, size) for rows, size in zip(opened, sizes, strict=True)]
    return Sequence(stages, rank=rank, world_size=world_size, last=last)


def _opened_stage(number: int, stage: Stage, *, rank: int, world_size: int, last: Last) -> StageSteps:
    """Return the steps of a stage; an error says which it is."""
    try:
        return StageSteps(stage, rank=rank, world_size=world_size, last=last)
    except ConfigError as error:
        name = stage.rows.name if stage.name is None else stage.name
        raise ConfigError(f"stage {number} {name!r}: {error}") from error


def _refuse_together(stages: Several[StageSteps]) -> None:
    """Refuse stages that are no sequence."""
    if not stages:
        raise ConfigError("stages: there is none")
    seen: set[str] = set()
    for stage in stages:
        if stage.name in seen:
            raise ConfigError(
                f"stages: two are named {stage.name!r}; give one a name, Stage(..., name=)"
            )
        seen.add(stage.name)
        if stage.rows.tokenizer_sha256 != stages[0].rows.tokenizer_sha256:
            raise ConfigError(
                f"stage {stage.name!r}: ids of another tokenizer than those of {stages[0].name!r}; make"
                " both of one"
            )
