"""A step as one value: all that the program knows of it.

    settings, reads    its place in the plan and its fingerprint
    need               how many workers it gets
    work               its tasks, a phase after another, and at the end its record
    record             what later steps and the report read of it
    takes, evidence    what the ledger holds it to

`pipeline.steps.table` lists the steps as the flow has them; plan, run, status, audit and report loop
over that list.
"""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from pipeline.engine.memory import Need
from pipeline.engine.tasks import Function, Node, Phases, Task
from pipeline.inputs.files import InputFile
from pipeline.run_file.config import RunFile
from pipeline.run_file.dataset import Dataset
from pipeline.run_file.fingerprints import fingerprint_of, full_settings
from pipeline.state.commit_object import Commit
from pipeline.state.commits import STEP_COMMIT
from pipeline.steps.earlier_runs import EarlierRun
from pipeline.steps.records import StepRecord
from pipeline.steps.replayed_runs import ReplayedRun
from pipeline.steps.tokenizer.adopt import AdoptedTokenizer
from pipeline.steps.units import Unit
from stages.ledger import Flow

R = TypeVar("R", bound=StepRecord)
_Value = TypeVar("_Value")


@dataclass(frozen=True)
class Result(Generic[R]):
    """The end of a step's work."""

    record: R
    flows: Mapping[str, Flow] | None = None
    """Of its units: they must add up and take what was let out before, and become its table in the
    ledger. None if a task of the step has written the table, or there is none."""


Work = Phases[Result[R]]
"""A step at work."""


@dataclass(frozen=True)
class Inputs:
    """Whose documents a step takes."""

    steps: tuple[str, ...]
    """Names; it takes those that the last of them let out that the run has."""
    by_unit: bool = True
    """Whether they have the same units; otherwise the totals are compared."""
    beside: tuple[str, ...] = ()
    """Names of steps that it takes documents of too, where the run has them; totals are compared."""

    def of(self, planned: Container[str]) -> tuple[str, ...]:
        """Return the names of the steps, of those that the run has."""
        last = next(name for name in reversed(self.steps) if name in planned)
        return (last, *(name for name in self.beside if name in planned))


@dataclass(frozen=True)
class Scope:
    """What a step is planned for: a run, and one of its datasets if each has a step of its own."""

    file: RunFile
    inputs: Sequence[InputFile] = ()
    adopted: AdoptedTokenizer | None = None
    """The existing tokenizer, if the run trains none."""
    of: Dataset | None = None
    earlier: tuple[EarlierRun, ...] = ()
    """Runs that it is deduplicated against, in the order of their rank."""
    replayed: tuple[ReplayedRun, ...] = ()
    """Runs whose training documents it takes too."""
    generation: int = 0
    """Its number in the folder of its run."""
    finished: Mapping[str, str] = field(default_factory=dict)
    """Fingerprints of the steps that are whole in its folder, by name in the plan."""
    mixed: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Tokens of each source in the mixes of earlier generations, by dataset."""

    @property
    def dataset(self) -> Dataset:
        """The dataset of a step that has one."""
        assert self.of is not None, "a step for each dataset is asked for none"
        return self.of


@dataclass(frozen=True)
class LaterRule:
    """A rule that a step was given after runs had been made without it.

    A run that it changes has it in its fingerprint. A step that was finished before stays done.
    """

    name: str
    changes: Callable[[Scope], bool]
    """Says whether a run may be made otherwise by it."""
    missed: Callable[[Path, "Records", Scope], str | None] = lambda *_: None
    """Says, for people, what is otherwise in a finished run that was made without it, and in how many
    documents; None if nothing is."""
    settings: Callable[[Scope], Mapping[str, object]] = lambda _: {}
    """Returns what decides the bytes of a step that follows it, beside the settings of the step."""


@dataclass(frozen=True)
class StepPlan:
    """A step in the plan of a run."""

    name: str
    """Its commits' name: ingest, dedup, ..., shard-NAME, verify-NAME."""
    fingerprint: str
    config: Mapping[str, Any]
    """What of the run file it depends on."""
    inputs: tuple[str, ...]
    """Steps it reads."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Fingerprints of units that have their own, by key."""
    warning: str | None = None
    """What its settings cost, for people."""
    unread: tuple[str, ...] = ()
    """Where files of the step lie that no later step reads."""
    after: tuple[str, ...] = ()
    """Steps that must be done before it begins, too, though nothing that it makes depends on them."""
    rules: tuple[str, ...] = ()
    """Later rules that it is made by."""
    missed: tuple[str, ...] = ()
    """Later rules that would change it, and that it was finished without."""
    key_of: Callable[[str], str | None] = field(default=lambda _: None, repr=False, compare=False)
    """Returns the key in `units` of a unit that has a fingerprint of its own."""

    def fingerprint_of(self, unit: str) -> str | None:
        """Return the fingerprint that a unit's commit must have; None if there can be no such unit."""
        key = None if unit == STEP_COMMIT else self.key_of(unit)
        return self.fingerprint if key is None else self.units.get(key)


class Records:
    """What the steps of a run reported, as far as they are done."""

    def __init__(self) -> None:
        self._records: dict[str, StepRecord] = {}

    def put(self, name: str, record: StepRecord) -> None:
        """Keep the record of a step under its name in the plan."""
        self._records[name] = record

    def of(self, step: "Step[R]", dataset: str | None = None) -> R:
        """Return the record of a step that is done."""
        found = self.get(step, dataset)
        assert found is not None, f"{step.name} is not done"
        return found

    def get(self, step: "Step[R]", dataset: str | None = None) -> R | None:
        """Return the record of a step, or None if it is not done."""
        found = self._records.get(step.name if dataset is None else f"{step.name}-{dataset}")
        assert found is None or isinstance(found, step.record)
        return found

    def named(self, name: str) -> StepRecord:
        """Return the record of a step that is done, by its name in the plan."""
        return self._records[name]

    def datasets(self, step: "Step[R]") -> dict[str, R]:
        """Return the records of a step that each dataset has, by dataset."""
        begin = f"{step.name}-"
        names = [name.removeprefix(begin) for name in self._records if name.startswith(begin)]
        return {name: self.of(step, name) for name in names}

    def items(self) -> Iterator[tuple[str, StepRecord]]:
        """Yield all of them by name in the plan."""
        yield from self._records.items()

    def sort(self, names: Sequence[str]) -> None:
        """Put them in an order, whichever was done first.

        Args:
            names: in the plan, all that there may be.
        """
        self._records = {name: self._records[name] for name in names if name in self._records}


@dataclass(frozen=True)
class Job:
    """One step of one run, ready to be done."""

    plan: StepPlan
    scope: Scope
    records: Records
    """Of the steps before."""
    root: Path
    """The run's folder."""
    workers: int
    plans: Mapping[str, StepPlan] = field(default_factory=dict)
    """Of all steps of the run, for a check that follows them."""
    steps: Sequence["Step[Any]"] = ()
    """All that there are, in the order of the flow; likewise."""

    @property
    def file(self) -> RunFile:
        """The run file."""
        return self.scope.file

    def task(
        self,
        unit: str,
        function: Function,
        payload: object,
        *,
        fingerprint: str | None = None,
        after: Sequence[Node] = (),
        chained: bool = False,
    ) -> Task:
        """Return a task of the step; its fingerprint is the step's unless another is given."""
        own = fingerprint or self.plan.fingerprint
        return Task(self.plan.name, unit, function, payload, own, tuple(after), chained)


@dataclass(frozen=True)
class Evidence:
    """What the ledger says of a step, to be counted again."""

    name: str
    """In the plan."""
    units: Sequence[Unit]
    """Of ingest."""
    flows: Mapping[str, Flow]
    """Of its own units."""
    records: Records
    scope: Scope
    """Of the run."""


@dataclass(frozen=True)
class RowsOf:
    """Where a task lists rows of evidence."""

    ending: str
    """Of the names of its files that do."""
    axis: int = 0
    """Of an array, along which the rows lie."""


@dataclass(frozen=True)
class Amounts:
    """What a step went through, as far as it knows; for the report."""

    documents: int | None = None
    bytes: int | None = None
    """Of text."""
    tokens: int | None = None


def always(value: _Value) -> Callable[[Scope], _Value]:
    """Return what gives a value for every run."""
    return lambda _: value


@dataclass(frozen=True)
class Step(Generic[R]):
    """One step: one line in `pipeline.steps.table`."""

    name: str
    version: int
    """Raised when its bytes change for the same config and inputs; golden bytes in a test guard it."""
    said: str
    """What it does, for people: the report names it so."""
    record: type[R]
    reads: Callable[[Scope], Sequence[str]]
    """Returns the names in the plan of the steps whose files or records it reads."""
    settings: Callable[[Scope], Mapping[str, object]]
    """Returns what of the run file decides its bytes."""
    need: Callable[[Scope], Need]
    """Returns the memory that a worker of it may take."""
    work: Callable[[Job], Work[R]]
    overlaps: Callable[[Scope], Sequence[str]] = lambda _: ()
    """Returns those of the steps that it reads that may still be at work when it begins: its tasks name
    their units. None of its phases ends before they are done."""
    after: Callable[[Scope], Sequence[str]] = lambda _: ()
    """Returns the names of steps that must be done before it begins, too, though nothing that it makes
    depends on them: they enter no fingerprint."""
    grows: Mapping[Literal["unit", "keys", "shard_documents"], int] = field(default_factory=dict)
    """Bytes that a task holds more with each byte of text of the largest unit, each key of a partition,
    or each document of a shard: for forecasts."""
    amounts: Callable[[R, Records], Amounts] = lambda *_: Amounts()
    folders: tuple[str, ...] = ()
    """Where it writes, beside the ledger."""
    unread: tuple[str, ...] = ()
    """Where files of it lie that no later step reads."""
    earlier: tuple[str, ...] = ()
    """Names of the steps of earlier runs whose files it reads."""
    replayed: tuple[str, ...] = ()
    """Likewise of replayed runs."""
    former: tuple[str, ...] = ()
    """Names of units of earlier versions of the program, whose work other tasks do now, with the same
    results. A step that was finished with one stays done; a begun one drops it and goes on."""
    passing: tuple[str, ...] = ()
    """Beginnings of the names of units that only its own tasks read: when it is whole, their files and
    commits are removed."""
    owned_folder: str | None = None
    """A folder in which nothing may lie but its files: a kill may have left others."""
    of_datasets: bool = False
    """Whether each dataset has a step of its own."""
    is_check: bool = False
    """Whether it makes nothing: `verify` does it again."""
    applies: Callable[[Scope], bool] = lambda _: True
    units: Callable[[Scope, Mapping[str, StepPlan]], Mapping[str, str]] = lambda *_: {}
    """Returns the fingerprints of units that have their own, by key."""
    unit_key: Callable[[str], str | None] = lambda _: None
    """Returns the key of such a unit by its name."""
    warning: Callable[[Scope], str | None] = lambda _: None
    """Says what its settings cost."""
    takes: Inputs | None = None
    evidence: Callable[[Evidence], Iterator[Task]] = lambda _: iter(())
    """Returns tasks that count its tables again and report findings."""
    ended: Callable[[Job, Mapping[str, Commit]], Result[R]] | None = None
    """Returns the end of its work from the commits of its units, where these hang on the inputs."""
    whole: tuple[Function, ...] = ()
    """What its tasks do that checks do again: it follows from tables."""
    outside: tuple[Function, ...] = ()
    """Likewise, from files beside the run too: where these are gone or others, nothing is said."""
    sampled: tuple[Function, ...] = ()
    """Likewise of some of its tasks, since each does a part of the corpus: as many as have 1% of the
    documents."""
    listed: Mapping[Function, RowsOf] = field(default_factory=dict)
    """Likewise, as many tasks as have 100,000 rows of evidence."""
    otherwise: frozenset[str] = frozenset()
    """Paths of numbers that an earlier version, whose records lack keys, counted by another rule."""
    remade: Mapping[Function, Function] = field(default_factory=dict)
    """What does again, in `verify` alone, what a task does, or all but the dearest part of it."""
    rules: tuple[LaterRule, ...] = ()
    """Rules that came later, in the order in which they came."""
    unit_of: Callable[[str], str] = lambda name: name
    """Returns the unit of the ledger that a commit is of, by the commit's name."""
    plan_line: Callable[[Mapping[str, Any], R | None], str | None] | None = None
    """Says in a line of `plan` what its settings ask for, and what came of them once it is done."""
    recalled: Callable[[R], str | None] = lambda _: None
    """Says what people are told of a record of an earlier session."""

    def scopes(self, scope: Scope) -> list[Scope]:
        """Return what it is planned for in a run: once, for each dataset, or not at all."""
        if not self.of_datasets:
            every = [scope]
        else:
            every = [replace(scope, of=dataset) for dataset in scope.file.datasets]
        return [one for one in every if self.applies(one)]

    def name_for(self, scope: Scope) -> str:
        """Return its name in the plan."""
        return f"{self.name}-{scope.dataset.name}" if self.of_datasets else self.name

    def plan(self, scope: Scope, before: Mapping[str, StepPlan]) -> StepPlan:
        """Return its plan, after those that it reads."""
        name, inputs = self.name_for(scope), [before[read] for read in self.reads(scope)]
        changing = [rule for rule in self.rules if rule.changes(scope)]
        rules = tuple(rule.name for rule in changing)

        def settings(followed: int) -> Mapping[str, object]:
            own = dict(self.settings(scope))
            for rule in changing[:followed]:
                own |= rule.settings(scope)
            return {**own, "rules": rules[:followed]} if followed else own

        def fingerprint(followed: int) -> str:
            read = [step.fingerprint for step in inputs]
            return fingerprint_of([name, self.version, settings(followed), read])

        followed = next(
            (n for n in range(len(rules) + 1)[::-1] if scope.finished.get(name) == fingerprint(n)),
            len(rules),
        )
        return StepPlan(
            name,
            fingerprint(followed),
            {key: full_settings(value) for key, value in settings(followed).items()},
            tuple(step.name for step in inputs),
            self.units(scope, before),
            self.warning(scope),
            self.unread,
            tuple(self.after(scope)),
            rules[:followed],
            rules[followed:],
            self.unit_key,
        )
