"""The table of a run's steps: as many of its columns as the terminal has room for."""

from collections.abc import Callable, Sequence

from pipeline.engine.memory import MIB
from pipeline.report.content import StepContent
from pipeline.report.plain import PlainConsole, PlainTable

_COLUMNS: dict[str, Callable[[StepContent], str]] = {
    "units": lambda row: f"{row['units']:,}",
    "documents": lambda row: f"{row['documents']:,}" if row["documents"] else "",
    "MB": lambda row: f"{row['bytes'] / 1e6:,.1f}" if row["bytes"] else "",
    "M tokens": lambda row: f"{row['tokens'] / 1e6:,.2f}" if row["tokens"] else "",
    "when, s": lambda row: f"{row['began']:,.0f} to {row['ended']:,.0f}",
    "wall s": lambda row: f"{row['wall_seconds']:,.1f}",
    "CPU s": lambda row: f"{row['cpu_seconds']:,.1f}",
    "MB/s": lambda row: f"{row['bytes_per_second'] / 1e6:,.2f}" if row["bytes_per_second"] else "",
    "MiB held": lambda row: f"{row['peak_memory'] / MIB:,.0f}",
}
_FIRST_LEFT_OUT = ("units", "MB/s", "M tokens", "when, s", "MB", "MiB held", "wall s")


def show_steps(console: PlainConsole, rows: Sequence[StepContent]) -> None:
    """Print what each step cost; where there is no room for all columns, say which are left out."""
    for number in range(len(_FIRST_LEFT_OUT) + 1):
        left_out = _FIRST_LEFT_OUT[:number]
        table = _table(rows, [name for name in _COLUMNS if name not in left_out])
        if console.has_room_for(table):
            break
    console.show(table)
    if left_out:
        console.line(f"no room for: {'; '.join(left_out)} (report/index.html has it)")
    console.line()


def _table(rows: Sequence[StepContent], columns: Sequence[str]) -> PlainTable:
    table = PlainTable("step", *columns).right()
    for row in rows:
        table.add(row["step"], *(_COLUMNS[name](row) for name in columns))
    return table
