"""What tables on a narrow terminal promise: every word whole, and columns that are missing are named."""

import pytest

from pipeline.report.plain import PlainConsole, PlainTable
from pipeline.report.report import StepCost
from pipeline.report.steps import show_steps

LONG = "verify-a-name-of-a-dataset-that-is-longer-than-a-line-of-a-terminal-with-eighty-columns"
NAMES = ("scan", "ingest", "shard-span_corruption", "verify-span_corruption")


def step(name: str) -> StepCost:
    return StepCost(
        step=name,
        units=1_097,
        documents=1_446_834,
        bytes=855_123_456,
        tokens=221_234_567,
        began=1_234.0,
        ended=1_310.0,
        wall_seconds=76.4,
        worker_seconds=150.0,
        cpu_seconds=140.8,
        peak_memory=1_100 << 20,
        bytes_per_second=11_192_000,
    )


def shown(names: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the lines of the table of some steps, without the last, which is empty."""
    show_steps(PlainConsole(), [step(name) for name in names])
    *lines, last = capsys.readouterr().out.splitlines()
    assert last == ""
    return [line.rstrip() for line in lines]


@pytest.mark.parametrize("width", range(30, 115, 7))
def test_names_and_numbers_are_whole_at_every_width(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = shown((*NAMES, LONG), capsys)
    rows = [line.split() for line in lines if line.startswith((*NAMES, "verify-"))]
    assert [row[0] for row in rows] == [*NAMES, LONG]
    assert {(row[1], row[-1]) for row in rows} == {("1,446,834", "140.8")}
    assert "no room for: units; MB/s; M tokens" in lines[-1]


def test_at_80_columns_the_steps_of_a_common_run_fit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = shown(NAMES, capsys)
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["step", "documents", "MB", "wall", "s", "CPU", "s", "MiB", "held"]
    assert [line.split()[0] for line in lines[1:5]] == list(NAMES)
    assert lines[5].startswith("no room for: units; MB/s; M tokens; when, s (")


def test_a_wide_terminal_and_a_file_have_all_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    wide = shown(NAMES, capsys)
    monkeypatch.delenv("COLUMNS")
    assert wide == shown(NAMES, capsys)
    assert len(wide) == 1 + len(NAMES)
    assert "1,234 to 1,310" in wide[1]
    assert wide[1].endswith("1,100")


def test_sentences_in_a_table_are_wrapped_between_words(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    table = PlainTable("step", "units", "why")
    table.add("verify-span_corruption", "1,234,567", "what it reads changed (shard-span_corruption)")
    PlainConsole().show(table)
    said = capsys.readouterr().out
    assert len(said.splitlines()) > 2
    assert {"verify-span_corruption", "1,234,567", "(shard-span_corruption)"} <= set(said.split())
