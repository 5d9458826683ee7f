"""What starting Ray promises: where Ray does not start, the run stops and says so; it can be resumed."""

import os
import subprocess
import sys
from typing import NoReturn

import pytest
import ray

from pipeline.cluster import ClusterConfig, ray_cluster
from stages.errors import ConfigError, Stopped


def too_slow(**_: object) -> NoReturn:
    """Stand for `ray.init` on a machine that is too busy: it raises nothing more telling."""
    raise Exception("The current node timed out during startup.")  # noqa: TRY002  # as Ray does


@pytest.mark.parametrize(
    ("address", "error", "message"),
    [
        (None, Stopped, "Ray did not start: .* timed out .*; run again to resume"),
        ("10.0.0.1:6379", ConfigError, "--address 10.0.0.1:6379: no cluster: .* timed out"),
    ],
)
def test_ray_that_starts_too_slowly_stops_the_run(
    address: str | None, error: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", too_slow)
    before = dict(os.environ)
    with pytest.raises(error, match=message), ray_cluster(ClusterConfig(1, address, 2 << 30)):
        pytest.fail("it did not start")
    assert {**os.environ, "RAY_USAGE_STATS_ENABLED": ""} == {**before, "RAY_USAGE_STATS_ENABLED": ""}


def test_a_fault_of_the_program_is_not_taken_for_one_of_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(**_: object) -> NoReturn:
        raise TypeError("init() got an unexpected keyword argument")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", wrong)
    with pytest.raises(TypeError), ray_cluster(ClusterConfig(1, None, 2 << 30)):
        pytest.fail("it did not start")


def test_a_process_starts_ray_for_one_run_after_another() -> None:
    program = """if True:
        import os, ray
        from pipeline.cluster import ClusterConfig, ray_cluster
        for start in range(2):
            with ray_cluster(ClusterConfig(1, None, 2 << 30)):
                print(start, ray.get(ray.put("answers")))
            assert "RAY_AUTH_TOKEN_PATH" not in os.environ
    """
    alone = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "-c", program], env=alone, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == ["0 answers", "1 answers"], done.stderr
