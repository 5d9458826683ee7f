"""What `status` prints: how far a run and its generations are."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from pipeline.inputs.own_files import REPLACEMENT
from pipeline.report.evidence import joined_in_folder, line_of
from pipeline.report.mixes import (
    add_generations,
    mix_line,
    mixes_in,
    packed_of,
    verdicts_in,
    whole_line,
)
from pipeline.report.plain import PlainConsole, PlainTable, print_json
from pipeline.report.verdicts import word_of
from pipeline.state.commits import STEP_COMMIT
from pipeline.state.journal import read_status
from pipeline.state.lease import is_in_use
from pipeline.state.stored_run import stored_run_at
from pipeline.steps.run_folder import RunFolder


def print_status(steps: Mapping[Path, Iterable[str]], *, as_json: bool) -> None:
    """Print how far a run and its generations are: what is committed, and what they are doing.

    Args:
        steps: names of the steps of each folder, that of the run first.
        as_json: whether to print JSON.
    """
    found = {folder: _status(folder, names) for folder, names in steps.items()}
    packed = []
    for folder, content in found.items():
        verdicts = verdicts_in(folder)
        packed.append(packed_of(verdicts))
        if verdicts:
            content["verdicts"] = {name: word_of(one) for name, one in verdicts.items()}
        if (page := folder / "report" / "index.html").exists():
            content["report"] = str(page)
        if mixes := mixes_in(verdicts):
            content["mix"] = mixes
        if len(packed) > 1:
            content["whole"] = add_generations(packed, mixes)
    own, *later = found.values()
    if as_json:
        names = [folder.name for folder in found][1:]
        generations = {"generations": dict(zip(names, later, strict=True))} if later else {}
        print_json(to_jsonable_python({**own, **generations}))
        return
    console = PlainConsole()
    _print_replacement(console, next(iter(found)) / REPLACEMENT)
    if later:
        console.line(_generations_line(list(found)))
        console.line()
    for folder, content in found.items():
        if content is not own:
            console.line()
            console.line(f"generation {int(folder.name)}, in {folder}:")
        _print_one_status(console, content)


def _print_replacement(console: PlainConsole, beside: Path) -> None:
    """Say that a run is made that is to replace a run and its generations, if one is."""
    if beside.exists():
        console.line(
            f"a run that is to replace this one and its generations is in {beside}: until it is whole,"
            " nothing here changes"
        )


def _generations_line(folders: Sequence[Path]) -> str:
    """Say how many generations there are, and how far it is known that they belong together."""
    last = folders[-1].name
    said = (
        f"{len(folders)} generations, the last is {last}; without the last ones, a folder is the run"
        " before it grew"
    )
    earlier = [folder.name for folder in folders[1:] if RunFolder(folder).plan.after is None]
    if earlier:
        said += (
            f". An earlier version made {', '.join(earlier)}: the datasets do not name the generation"
            " before them, so open_dataset checks the numbers of folders and nothing more"
        )
    return said


def _status(folder: Path, names: Iterable[str]) -> dict[str, Any]:
    """Return how far one run is."""
    now = read_status(folder).model_dump(exclude_none=True)
    if now["state"] == "running" and not _is_at_work(folder, now.get("pid")):
        now["state"] = "killed"  # it could not say so itself
    commits = RunFolder(folder).commits
    steps = {}
    for step in names:
        units = commits.units(step)
        whole = STEP_COMMIT in units
        steps[step] = {"units": len(units) - whole, "whole": whole}
    joined = joined_in_folder(folder)
    return {**now, "steps": steps, **({"joined": joined} if joined else {})}


def _is_at_work(folder: Path, pid: object) -> bool:
    """Say whether the process of a run lives; of a run in a store, whether it may."""
    stored = stored_run_at(folder)
    return Path(f"/proc/{pid}").exists() if stored is None else is_in_use(stored.store)


def _print_one_status(console: PlainConsole, now: Mapping[str, Any]) -> None:
    table = PlainTable("step", "units", "whole")
    for name, step_ in now["steps"].items():
        table.add(name, f"{step_['units']:,}", "yes" if step_["whole"] else "no")
    console.show(table)
    doing = f" at {now['step']}, {now.get('done', '?')}/{now.get('total', '?')}" if "step" in now else ""
    others = [step for step in now.get("steps_at_work", ()) if step != now.get("step")]
    doing += f"; also at work: {', '.join(others)}" if others else ""
    console.line()
    state = "killed, or stopped by a full disk" if now["state"] == "killed" else now["state"]
    console.line(f"{state}{doing}{': ' + now['error'] if 'error' in now else ''}")
    for name, word in now.get("verdicts", {}).items():
        console.line(f"verify {name}: {word.upper()}")
    if "joined" in now:
        console.line(line_of(now["joined"]))
    for name, mix in now.get("mix", {}).items():
        console.line(mix_line(name, mix))
    for name, whole in now.get("whole", {}).items():
        console.line(whole_line(name, whole))
    if "report" in now:
        console.line(f"report: {now['report']}")
