"""What the command line promises: one clear line for each foreseen error, and the exit code it lists."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard

from pipeline.report.verdicts import UNPROVEN_SAID
from tests.called import called
from tests.campaign import FULL, some_of

pytestmark = pytest.mark.slow

RUN = """
[[sources]]
name = "s"
paths = ["corpus/*.jsonl*"]

[[datasets]]
name = "clm"
"""


def make(folder: Path, run: str = RUN, *, lines: int = 3) -> Path:
    (folder / "corpus").mkdir()
    records = [json.dumps({"text": f"document number {n} of a tiny corpus"}) for n in range(lines)]
    if lines:
        (folder / "corpus" / "a.jsonl").write_text("\n".join(records) + "\n")
    (folder / "run.toml").write_text(run)
    return folder


def one_line(result: subprocess.CompletedProcess[str]) -> str:
    """Return the error, which is one line and no traceback."""
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("shardmill: ")]
    assert "Traceback" not in result.stderr
    return line


STRUCK = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores Ctrl-C
number, commits = int(sys.argv.pop()), []
def strike(event, arguments):
    if event == "os.link" and "commits/ingest" in str(arguments[1]):
        commits.append(arguments[1])
        if len(commits) == 4:
            os.kill(os.getpid(), number)
sys.addaudithook(strike)
from pipeline.main import main
main()
"""
"""The command line, to which a signal is sent while it commits the fourth unit of ingest."""
RUN_IT = ("run", "run.toml", "--output", "out", "--workers", "0")


def test_an_empty_folder_is_named_with_the_pattern_that_found_nothing(tmp_path: Path) -> None:
    result = called(*RUN_IT, cwd=make(tmp_path, lines=0))
    assert result.returncode == 2
    assert "sources.s.paths: 'corpus/*.jsonl*' matches no file in" in one_line(result)


def test_a_typo_in_a_key_names_the_key_that_was_meant(tmp_path: Path) -> None:
    result = called(*RUN_IT, cwd=make(tmp_path, RUN + "\n[packing]\nseq_length = 8\n"))
    assert result.returncode == 2
    assert "packing.seq_length: no such key; did you mean 'seq_len'?" in one_line(result)


def test_plan_refuses_what_run_refuses_for_memory(tmp_path: Path) -> None:
    make(tmp_path, RUN + '[ingest]\nmax_document_bytes = "64MiB"\n[resources]\nmemory = "1GiB"\n')
    said = []
    for command in ("plan", "run"):
        result = called(command, "run.toml", "--output", "out", cwd=tmp_path)
        assert result.returncode == 2
        said.append(one_line(result))
    assert said[0] == said[1]
    assert "set it to 1280MiB or more, or set ingest.max_document_bytes to 32MiB or less" in said[0]
    if not FULL:
        return
    # With no Ray there is room: in a process of its own, because this one holds what earlier tests left.
    scan = [sys.executable, "-m", "pipeline.main", *RUN_IT, "--until", "scan"]
    scanned = subprocess.run(scan, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert scanned.returncode == 0, scanned.stderr


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    run = RUN.replace("corpus/*.jsonl*", "corpus/b.jsonl")
    result = called(*RUN_IT, cwd=make(tmp_path, run))
    assert result.returncode == 2
    assert "corpus/b.jsonl: no such file" in one_line(result)


def test_a_missing_run_file_is_named(tmp_path: Path) -> None:
    result = called(*RUN_IT, cwd=tmp_path)
    assert result.returncode == 2
    assert "run.toml: no such run file" in one_line(result)


def test_a_zst_cut_in_the_middle_is_an_error_not_a_short_read(tmp_path: Path) -> None:
    folder = make(tmp_path, lines=0)
    lines = b"".join(json.dumps({"text": f"text {n} " * 9}).encode() + b"\n" for n in range(999))
    data = zstandard.compress(lines)
    (folder / "corpus" / "cut.jsonl.zst").write_bytes(data[: len(data) // 2])
    result = called(*RUN_IT, cwd=folder)
    assert result.returncode == 2
    assert "cut.jsonl.zst: the compressed data ends in the middle" in one_line(result)


def test_too_many_bad_lines_stop_the_run_and_name_the_first(tmp_path: Path) -> None:
    folder = make(tmp_path)
    with (folder / "corpus" / "a.jsonl").open("a") as file:
        file.write('{"text": " "}\n' * 3 + '{"txt": "no text"}\nnot json\n')
    result = called(*RUN_IT, cwd=folder)
    assert result.returncode == 2
    line = one_line(result)
    assert "ingest.max_bad_fraction = 0.05: 2 of 8 records are unreadable" in line
    assert "a.jsonl, line 7: missing_text: field 'text' is absent" in line
    assert "empty" not in line  # which a filter dropped


def test_a_folder_of_another_config_wants_replace_and_says_what_would_be_redone(
    tmp_path: Path,
) -> None:
    folder = make(tmp_path)
    until = ("--until", "dedup")
    assert called(*RUN_IT, *until, cwd=folder).returncode == 0
    other = (*RUN_IT, *until, "--set", "dedup.minhash.threshold=0.7")
    result = called(*other, cwd=folder)
    assert result.returncode == 2
    line = one_line(result)
    assert "dedup.minhash.threshold: 0.8 -> 0.7" in line
    assert "--replace" in line
    assert "ingest (" not in line
    plan = called("plan", "run.toml", "--output", "out", *other[-2:], "--json", cwd=folder)
    states = {row["step"]: row["state"] for row in json.loads(plan.stdout)}
    assert (states["ingest"], states["dedup"], states["tokenizer"]) == ("done", "stale", "new")
    assert called(*other, "--replace", cwd=folder).returncode == 0


def test_a_vocabulary_too_large_for_the_corpus_names_the_bound(tmp_path: Path) -> None:
    result = called(*RUN_IT, cwd=make(tmp_path, lines=50))
    assert result.returncode == 2
    assert "tokenizer.train.vocab_size = 32,000: the sample gives at most" in one_line(result)


def test_too_little_to_learn_from_is_told_apart_from_a_fault(tmp_path: Path) -> None:
    folder = make(tmp_path, lines=60)
    settings = ("tokenizer.train.vocab_size=600", "dedup.near=false", "validation.fraction=0.1")
    given = [part for setting in settings for part in ("--set", setting)]
    result = called(*RUN_IT, *given, cwd=folder)
    assert result.returncode == 0
    assert "verify clm: UNPROVEN" in result.stdout
    assert f"  learning   could not be judged, {UNPROVEN_SAID}: " in result.stdout
    report = json.loads((folder / "out" / "report" / "report.json").read_text(encoding="utf-8"))
    assert (report["passed"], report["verify"]["clm"]["verdict"]) == (True, "unproven")
    exported = called(
        *("export", "out", "--dataset", "clm", "--format", "nanogpt", "--to", "nano", "--quiet"),
        cwd=folder,
    )
    assert exported.returncode == 0, exported.stderr
    assert "or set verify.learning = false, and the exact checks decide alone" in result.stdout
    assert called(*RUN_IT, *given, "--set", "verify.learning=false", cwd=folder).returncode == 2
    result = called(*RUN_IT, *given, "--set", "verify.learning=false", "--replace", cwd=folder)
    assert result.returncode == 0


def test_a_share_is_a_number_or_a_percentage(tmp_path: Path) -> None:
    folder = make(tmp_path)
    for given, code, said in (
        ("5x", 2, "5x is not a share; write 0.05, or 5%"),
        ("500%", 2, "500%: a share is from 0 to 1, or from 0% to 100%"),
    ):
        result = called("plan", "run.toml", "--output", "out", "--sample", given, cwd=folder)
        assert (result.returncode, said in result.stderr) == (code, True), result.stderr


def test_status_of_a_folder_without_a_run_says_so(tmp_path: Path) -> None:
    result = called("status", str(tmp_path), cwd=tmp_path)
    assert result.returncode == 2
    assert "holds no run" in one_line(result)


def test_verify_of_an_unfinished_run_says_which_step_is_missing(tmp_path: Path) -> None:
    folder = make(tmp_path)
    called(*RUN_IT, "--until", "ingest", cwd=folder)
    result = called("verify", "out", "--workers", "0", cwd=folder)
    assert result.returncode == 2
    assert "step dedup is not done; finish the run first" in one_line(result)


def test_a_quiet_run_shows_its_report_and_no_progress(tmp_path: Path) -> None:
    folder = make(tmp_path, lines=50)
    told = called(*RUN_IT, "--until", "ingest", cwd=folder)
    quiet = called(*RUN_IT, "--until", "ingest", "-q", cwd=folder)
    assert told.returncode == quiet.returncode == 0
    assert "scan" in told.stderr
    assert quiet.stderr == ""
    assert quiet.stdout == told.stdout


def test_an_unknown_option_is_a_usage_error(tmp_path: Path) -> None:
    result = called("run", "--no-such-option", cwd=tmp_path)
    assert result.returncode == 2
    assert "No such option" in result.stderr


@pytest.mark.parametrize(("number", "code"), some_of([(signal.SIGTERM, 75), (signal.SIGINT, 130)], 1))
def test_a_signal_stops_a_run_that_then_resumes(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    folder = make(tmp_path, lines=600)
    limited = (*RUN_IT, "--until", "ingest", "--set", "ingest.unit_size=4KiB")
    command = [sys.executable, "-c", STRUCK, *limited, str(int(number))]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert "stopped; run again to resume" in done.stderr
    committed = set((folder / "out" / "commits" / "ingest").iterdir())
    assert len(committed) == 3
    assert not (folder / "out" / "commits" / "ingest" / "_step.json").exists(), done.stderr
    assert not list((folder / "out" / "tmp").iterdir())
    assert called(*limited, cwd=folder).returncode == 0
    assert committed < set((folder / "out" / "commits" / "ingest").iterdir())


PIPED = "exec 3>&1; {{ '{python}' -m pipeline.main {words}; echo code $? >&3; }} | head -c 1 > /dev/null"


@pytest.mark.parametrize("words", some_of(["schema", "status out", "status out --json"], 1))
def test_a_reader_that_goes_early_is_no_error(words: str, tmp_path: Path) -> None:
    folder = make(tmp_path)
    if "status" in words:
        assert called(*RUN_IT, "--until", "ingest", cwd=folder).returncode == 0
    script = ["/bin/sh", "-c", PIPED.format(python=sys.executable, words=words)]
    done = subprocess.run(script, cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["code 0"]
    assert "Traceback" not in done.stderr
    assert "ignored" not in done.stderr


def test_a_report_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "pipeline.main", "schema"]
        done = subprocess.run(command, cwd=tmp_path, stdout=full, stderr=-1, text=True, check=False)
    assert done.returncode == 75
    assert done.stderr == (
        "shardmill: /dev/stdout: No space left on device; free space and run again to resume\n"
    )
