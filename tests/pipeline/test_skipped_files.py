"""What skipped files promise: the plan, the run, the report and verify count and name them."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.report.terminal import print_plan
from pipeline.session.session import RunRequest, plan_session, run_session, verify_session
from tests.laws.tiny_run import tiny_run, write_tiny_corpus

pytestmark = pytest.mark.slow

LINE = (
    "sources.s: 2 files are not read: 1 by exclude (a.log), 1 that no reader knows (b.doc); exclude:"
    " 'tmp' matches no file"
)


def test_files_that_are_not_read_are_told_everywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus, output, stream = tmp_path / "corpus", tmp_path / "run", io.StringIO()
    write_tiny_corpus(corpus)
    for name in ("a.log", "b.doc"):
        (corpus / name).write_text("junk")
    source: dict[str, Any] = {"name": "s", "paths": ["*"], "language": {"column": "lang"}}
    file = tiny_run(sources=[{**source, "exclude": ["*.log", "tmp"], "skip_unknown": True}])
    request = RunRequest(file, corpus, output, 0)
    print_plan(plan_session(request), as_json=False)
    assert f"warning: {LINE}" in " ".join(capsys.readouterr().out.split())
    report = run_session(request, stream=stream)
    assert LINE in stream.getvalue()
    for found in (report, verify_session(output, workers=0, address=None, stream=None)):
        assert found["skipped"] == {"s": {"excluded": 1, "unknown": 1}}
        assert LINE in found["warnings"]
    assert json.loads((output / "report/report.json").read_text()) == found
    assert "1 that no reader knows (b.doc)" in (output / "report/report.html").read_text()
    (corpus / "c.doc").write_text("more junk")
    again = run_session(request, stream=None)
    assert again["skipped"] == {"s": {"excluded": 1, "unknown": 2}}, "what is read is the same, and done"
