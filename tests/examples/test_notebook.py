"""The notebook of the examples: its cells run in order, and what a notebook would draw is there."""

import ast
import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.commands.finished_run import DrawnRow, FinishedRun

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "examples" / "tour.ipynb"


def cells() -> list[str]:
    """Return the code of each cell."""
    content = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert content["nbformat"] == 4
    assert not [cell for cell in content["cells"] if cell.get("outputs")], "it is kept without outputs"
    return ["".join(cell["source"]) for cell in content["cells"] if cell["cell_type"] == "code"]


def test_the_notebook_runs_from_its_first_cell_to_its_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    names: dict[str, Any] = {"__name__": "__main__"}
    said, drawn = io.StringIO(), []
    with contextlib.redirect_stdout(said):
        for number, cell in enumerate(cells()):
            tree = ast.parse(cell)
            last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, f"cell {number}", "exec"), names)  # noqa: S102  # a notebook does so
            if isinstance(last, ast.Expr):
                shown = compile(ast.Expression(last.value), f"cell {number}", "eval")
                drawn.append(eval(shown, names))  # noqa: S307  # likewise
    run = next(one for one in drawn if isinstance(one, FinishedRun))
    row = next(one for one in drawn if isinstance(one, DrawnRow))
    assert run.verdicts == {"clm": "pass", "mlm": "pass"}
    assert "<td>pass</td>" in run._repr_html_()  # what a notebook calls
    assert '<span class="masked">' in row._repr_html_()  # likewise
    assert "kept None code:" in said.getvalue()
    assert "load_from_disk" in said.getvalue() or "load_dataset" in said.getvalue()
