"""What skipped files promise: those that no source reads are counted and named everywhere."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.report.terminal import print_plan
from pipeline.session.request import RunRequest
from pipeline.session.session import plan_session, run_session
from pipeline.session.verifying import verify_session
from tests.laws.tiny_run import tiny_run, write_tiny_corpus
from tests.pipeline.test_inputs import inputs

LINE = (
    "sources.s: 2 files are not read: 1 by exclude (a.log), 1 that no reader knows (b.doc); exclude:"
    " 'tmp' matches no file"
)


@pytest.mark.slow
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
    assert "1 that no reader knows (b.doc)" in (output / "report/index.html").read_text()
    (corpus / "c.doc").write_text("more junk")
    again = run_session(request, stream=None)
    assert again["skipped"] == {"s": {"excluded": 1, "unknown": 2}}, "what is read is the same, and done"


def test_what_another_source_reads_is_not_said_to_be_unread(tmp_path: Path) -> None:
    (tmp_path / "web").mkdir()
    (tmp_path / "web/a.jsonl").write_text("{}")
    (tmp_path / "web/note.txt").write_text("a note")
    (tmp_path / "web/old.log").write_text("junk")
    (tmp_path / "link").symlink_to(tmp_path / "web")
    records = {"name": "records", "paths": ["web/*"], "exclude": ["*.txt", "*.log", "*.md"]}
    for pattern in ("web/*.txt", "link/*.txt"):
        found = inputs(tmp_path, records, {"name": "plain", "paths": [pattern]})
        (skipped,) = found.skipped
        assert skipped.line == (
            "sources.records: 1 file is not read: 1 by exclude (old.log); exclude: '*.md' matches no"
            " file"
        )
    whole = {**records, "exclude": ["*.txt"], "paths": ["web/*.txt", "web/*.jsonl"]}
    assert inputs(tmp_path, whole, {"name": "plain", "paths": ["web/*.txt"]}).skipped == ()
    assert len(inputs(tmp_path, whole).skipped) == 1, "no other source reads it"
