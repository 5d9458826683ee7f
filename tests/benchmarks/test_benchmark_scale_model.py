"""What the model of large runs promises: the costs that runs were made of, and the longest part."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
import scale_model
from growth import MB, Point
from scale_model import Costs, markdown, project


def point(megabytes: int, unit_mib: int) -> Point:
    """Return a run of known costs: 0.1 s a MB, 3 ms a commit, 2 % of a core."""
    wall = 20 + megabytes / 20
    commits = 10 * megabytes // unit_mib + megabytes // 5
    driver = 1.5 + 0.02 * wall + 0.003 * commits
    return Point(
        workers=2,
        unit_mib=unit_mib,
        text_bytes=megabytes * MB,
        documents=500 * megabytes,
        cpu_seconds=15 + 0.1 * megabytes + driver,
        wall_seconds=wall,
        peak_mib=900.0,
        peak_processes={},
        files=50 * megabytes // unit_mib + megabytes,
        driver_seconds=driver,
        steps={},
        longest={"dedup": 0.5 + 1e-6 * 500 * megabytes},
        commits={"ingest": commits - 5, "dedup": 5},
    )


POINTS = [point(100, 50), point(1000, 50), point(10000, 50), point(1000, 5)]


def test_the_costs_that_runs_were_made_of_are_found() -> None:
    costs = Costs.fitted(POINTS)
    assert costs.of_a_mb == pytest.approx(0.1)
    assert (costs.of_a_commit, costs.watching) == pytest.approx((0.003, 0.02))
    assert costs.longest_of_a_document == pytest.approx(1e-6)
    assert (costs.commits.by_unit, costs.commits.fixed) == pytest.approx((10, 0.2))
    assert (costs.files.by_unit, costs.files.fixed) == pytest.approx((50, 1))
    assert costs.documents_of_a_mb == 500
    assert costs.most_workers(50) == pytest.approx(0.1 * 0.98 / (0.003 * 0.4))


def test_the_part_that_takes_longest_is_named() -> None:
    costs = Costs.fitted(POINTS)
    few = project(costs, terabytes=0.36, workers=10, unit_mib=50)
    hours = few.worker_hours, few.driver_hours, few.longest_hours
    assert hours == pytest.approx((1.0, 0.12 / 0.98, 0.05))
    assert (few.most, few.files, few.documents) == ("workers", 720_000, 180_000_000)
    assert project(costs, terabytes=0.36, workers=100, unit_mib=50).most == "driver"
    larger = project(costs, terabytes=0.36, workers=100, unit_mib=500)
    assert larger.files == 396_000
    assert larger.driver_hours == pytest.approx(0.066 / 0.98)


def test_a_table_has_a_line_for_each_projection() -> None:
    one = project(Costs.fitted(POINTS), terabytes=0.36, workers=5, unit_mib=50)
    line = "| 0.36 | 5 | 50 | 2 | 0.12 | 0.05 | 720,000 | workers |"
    assert markdown([one, one]).splitlines()[2:] == [line, line]


@pytest.mark.parametrize(("points", "code"), [(POINTS, 0), (POINTS[:2], 2), (POINTS[:3], 2)])
def test_it_reads_what_growth_wrote(
    points: list[Point],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "growth.json"
    path.write_text(json.dumps([asdict(point) for point in points]))
    monkeypatch.setattr(sys, "argv", ["scale_model.py", str(path)])
    assert scale_model.main() == code
    said = capsys.readouterr()
    assert ("driver: 3.0 CPU ms for a commit, 2.0% of a core" in said.out) == (code == 0)
    assert ("the model needs 3 runs" in said.err) == (code == 2)
