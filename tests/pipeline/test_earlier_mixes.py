"""What the earlier mixes of a folder promise: all that its generations have of a source counts."""

from pathlib import Path

from pipeline.planning.generations import earlier_mixes
from pipeline.state.commits import STEP_COMMIT, Commits
from pipeline.state.publishing import Outcome
from pipeline.state.storage import LocalStorage
from pipeline.steps.mix.choose import MixRecord
from stages.mixing.classes import MixClass


def commit_mix(folder: Path, dataset: str, **tokens: int) -> None:
    """Commit a mix that takes these tokens of each source, each in two classes."""
    classes = tuple(
        MixClass(
            source=source,
            language=language,
            end=0,
            available_documents=0,
            available_tokens=0,
            documents=0,
            tokens=part,
        )
        for source, count in tokens.items()
        for language, part in (("de", 1), ("en", count - 1))
    )
    record = MixRecord(classes=classes, shares={}).model_dump(mode="json")
    outcome = Outcome(folder, {}, record)
    Commits(LocalStorage(folder)).put(f"mix-{dataset}", STEP_COMMIT, "f", outcome)


def test_the_tokens_of_a_source_are_summed_over_all_earlier_generations(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("run", "0001", "0002", "0003")]
    commit_mix(folders[0], "clm", web=100, code=30)
    commit_mix(folders[0], "mlm", web=7)
    commit_mix(folders[1], "clm", web=20)
    commit_mix(folders[2], "clm", web=5, wiki=4)
    folders[3].mkdir()  # its mix is not done
    assert earlier_mixes(folders) == {"clm": {"web": 125, "code": 30, "wiki": 4}, "mlm": {"web": 7}}
    assert earlier_mixes([]) == {}
