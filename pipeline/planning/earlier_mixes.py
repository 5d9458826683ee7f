"""Earlier mixes: how many tokens the earlier generations of a folder have of each source, by dataset.

A later generation plans its shares with them. They are read from the committed records of the mixes, so
they are known before anything of the generation runs.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from pipeline.planning.kept_plan import KeptStep
from pipeline.state.commits import Commits
from pipeline.state.storage import LocalStorage
from pipeline.steps.mix.choose import MIX_NAME, MixRecord, tokens_by_source
from pipeline.steps.mix.rules import EARLIER

_BEGIN = f"{MIX_NAME}-"


def earlier_mixes(before: Iterable[Path]) -> dict[str, dict[str, int]]:
    """Return the tokens of each source in the mixes of some runs, by dataset.

    Args:
        before: folders of the earlier generations; a mix that is not done yet is not counted.

    Raises:
        FormatError: a commit is damaged.
    """
    found: dict[str, dict[str, int]] = {}
    for folder in before:
        commits = Commits(LocalStorage(folder))
        for step in commits.steps():
            whole = commits.whole(step) if step.startswith(_BEGIN) else None
            if whole is None:
                continue
            sums = found.setdefault(step.removeprefix(_BEGIN), {})
            for source, tokens in tokens_by_source(whole.read(MixRecord)).items():
                sums[source] = sums.get(source, 0) + tokens
    return found


def recorded_mixes(steps: Mapping[str, KeptStep]) -> dict[str, dict[str, int]]:
    """Return the same as a generation's run.json has it, of the mixes that were planned with them."""
    return {
        name.removeprefix(_BEGIN): {source: int(n) for source, n in step.config[EARLIER].items()}
        for name, step in steps.items()
        if name.startswith(_BEGIN) and EARLIER in step.config
    }
