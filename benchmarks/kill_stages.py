"""The stages of a campaign of kills: what a run is told until it is complete, and then after that.

At first the run is as its file says, over half of the corpus's files if it is to grow. Then the other
half of the files come. At last a setting is another one, with `--replace`.
"""

import argparse
import glob
from dataclasses import dataclass
from pathlib import Path

from run_processes import corpus_override, run_command


@dataclass(frozen=True)
class Stage:
    """What a run is told until it is complete."""

    name: str
    corpus: Path | None
    """Folder whose files are the corpus; None for the sources of the run file."""
    files: tuple[str, ...]
    """Of the corpus."""
    words: tuple[str, ...] = ()
    """Further ones of the command line."""

    def lay(self) -> None:
        """Have the corpus consist of these files."""
        if self.corpus is None:
            return
        self.corpus.mkdir(parents=True, exist_ok=True)
        for link in list(self.corpus.iterdir()):
            link.unlink()
        for file in self.files:
            (self.corpus / Path(file).name).symlink_to(file)

    def command(self, arguments: argparse.Namespace, output: Path, workers: int) -> list[str]:
        """Return the command line of the run."""
        overrides = list(arguments.overrides)
        if self.corpus is not None:
            overrides.append(corpus_override(f"{self.corpus}/*"))
        run = run_command(
            arguments.command, arguments.run_file, output, workers=workers, overrides=overrides
        )
        return [*run, *self.words]


def stages_of(arguments: argparse.Namespace, work: Path) -> list[Stage]:
    """Return the stages that the command line asks for.

    Args:
        arguments: with `corpus`, `grow` and `replace`.
        work: gets the folder of the corpus.
    """
    found = sorted(glob.glob(arguments.corpus or ""))  # noqa: PTH207  # a pattern of the user's
    files = tuple(str(Path(file).absolute()) for file in found)
    corpus = work / "corpus" if files else None
    half = files[::2] if arguments.grow else files
    stages = [Stage("first", corpus, half)]
    if arguments.grow:
        stages.append(Stage("grown", corpus, files))
    if arguments.replace:
        stages.append(Stage("replaced", corpus, files, ("--set", arguments.replace, "--replace")))
    return stages
