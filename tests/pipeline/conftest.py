"""What tests of the pipeline share."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray.cloudpickle

from pipeline.run_file.config import RunFile
from pipeline.run_file.load import load_run_file
from pipeline.tools.forecast import forecast
from tests.made_once import MadeOnce
from tests.pipeline import trials
from tests.pipeline.few_texts import write_few_texts
from tests.pipeline.trials import Trial, Trials


@pytest.fixture(scope="module")
def by_value(ray_session: None) -> Iterator[None]:  # noqa: ARG001  # Ray must run
    """Send functions to workers by value.

    They import no tests: their working_dir is empty.
    """
    ray.cloudpickle.register_pickle_by_value(trials)
    yield
    ray.cloudpickle.unregister_pickle_by_value(trials)


@pytest.fixture
def trial(by_value: None, tmp_path: Path) -> Iterator[Trials]:  # noqa: ARG001  # see there
    """Return what makes a trial, which ends with the test."""
    made: list[Trial] = []

    def make(**settings: Any) -> Trial:
        made.append(Trial(tmp_path, **settings))
        return made[-1]

    yield make
    for one in made:
        one.flow.close()


@pytest.fixture(scope="module")
def pair(by_value: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:  # noqa: ARG001  # see there
    """Return a trial of two workers for all tests of a file: a new Ray process takes two seconds."""
    made = Trial(tmp_path_factory.mktemp("pair") / "run", workers=2)
    yield made
    made.flow.close()


@pytest.fixture
def shared(pair: Trial) -> Trial:
    """Return that trial, which has forgotten all but its workers."""
    pair.root.mkdir(exist_ok=True)
    pair.forget()
    return pair


@pytest.fixture(scope="session")
def few_texts(made_once: MadeOnce) -> Path:
    """The few texts, for runs to read."""
    return made_once(write_few_texts)


@pytest.fixture
def measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a forecast take its seconds from its first run: a second one tells only these better."""
    monkeypatch.setattr(forecast, "_SHORT", 0.0)


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., RunFile]:
    """Return the run that a text describes."""

    def load_text(text: str, *overrides: str) -> RunFile:
        path = tmp_path / "run.toml"
        path.write_text(text, encoding="utf-8")
        return load_run_file(path, overrides)

    return load_text
