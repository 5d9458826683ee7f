"""What a run says of its mixes.

Numbers equal a plain loop over the files. Page, terminal, `plan` and `status` show them. Stages stand
side by side, generations add up. A dataset whose record of the mix was exchanged fails its gate, and so
do rows that hold other documents.
"""

import json
import shutil
import tomllib
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.engine.tasks import Workspace
from pipeline.report.flow import flow_stages
from pipeline.report.mixes import add_generations, mix_line, mixes_of, verdicts_in, wholes_of
from pipeline.report.page import render_page
from pipeline.report.pictures import draw_shares, draw_windows
from pipeline.report.report import Report, RunReport
from pipeline.report.status import print_status
from pipeline.report.terminal import print_plan, print_report
from pipeline.run_file.config import RunFile
from pipeline.session.request import RunRequest
from pipeline.session.session import known_steps, plan_session, run_session
from pipeline.session.verifying import verify_session
from pipeline.state.commit_object import Commit
from pipeline.state.commits import Commits
from pipeline.state.storage import LocalStorage
from pipeline.steps.mix.choose import MixChoice, MixRecord, nothing_taken
from pipeline.steps.mix.count import MixUnitRecord, largest_of
from pipeline.steps.mix.step import MixFindings, check_mix
from pipeline.steps.verify.mixed import MixCounts, count_mix, count_shard
from stages.config import canonical_json
from stages.loading.mapped import map_shard
from stages.mixing.audit import audit_mix
from stages.mixing.audited import MixAudit, PackedClass
from stages.mixing.config import DatasetMix, SourceMix
from stages.mixing.plan import plan_mix
from stages.store.manifest import read_manifest
from tests.laws.tiny_run import TINY, write_tiny_corpus
from tests.stages.mixing import corpora

SOURCES = [
    {"name": "web", "paths": ["a.jsonl"], "language": {"column": "lang"}},
    {"name": "old", "paths": ["b.jsonl"], "share": 0.3, "max_epochs": 9},
]
DATASETS: list[dict[str, Any]] = [
    {"name": "first", "objective": {"kind": "clm"}},
    {"name": "second", "objective": {"kind": "clm"}, "mix": {"after": "first", "tolerance": 0.2}},
]


def mixed_file() -> RunFile:
    """Return a run of two sources and two stages."""
    content = {**tomllib.loads(TINY), "sources": SOURCES, "datasets": DATASETS}
    return RunFile.model_validate(content)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mixed") / "corpus"
    write_tiny_corpus(folder)
    lines = (folder / "a.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "a.jsonl").write_bytes(b"".join(lines[:9]))
    (folder / "b.jsonl").write_bytes(b"".join(lines[9:14]))
    return folder


@pytest.fixture(scope="module")
def mixed(corpus: Path) -> Path:
    """A verified run with a mix."""
    output = corpus.parent / "run"
    report = run_session(RunRequest(mixed_file(), corpus, output, 0), stream=None)
    assert report["passed"]
    return output


def report_of(run: Path) -> dict[str, Any]:
    """Return what the run's report says."""
    report: dict[str, Any] = json.loads((run / "report" / "report.json").read_text())
    return report


def test_counts_equal_a_loop_over_the_files(mixed: Path) -> None:
    verdict = report_of(mixed)["verify"]["second"]
    for split, classes in verdict["packed"].items():
        documents: Counter[tuple[str, str]] = Counter()
        tokens: Counter[tuple[str, str]] = Counter()
        for shard in sorted((mixed / "datasets/second" / split / "epoch-0000").iterdir()):
            rows = pq.read_table(shard / "documents.parquet").to_pylist()
            names = [(row["source"], row["language"]) for row in rows]
            documents.update(names)
            doc, length = (np.load(shard / "segments" / f"{name}.npy") for name in ("doc", "length"))
            for number, size in zip(doc.tolist(), length.tolist(), strict=True):
                tokens[names[number]] += size
        assert documents
        found = {(one["source"], one["language"]): one for one in classes}
        assert {name: one["documents"] for name, one in found.items()} == documents
        assert {name: one["tokens"] for name, one in found.items()} == tokens
    mix = report_of(mixed)["mix"]["second"]
    assert {one["source"]: one["tokens"] for one in mix["sources"]} == {
        name: sum(one["tokens"] for one in verdict["packed"]["train"] if one["source"] == name)
        for name in ("web", "old")
    }
    assert all(gate["passed"] for gate in mix["gates"])
    assert mix["planned_tokens"] == mix["tokens"] + mix["tokens_cut"]
    assert sum(sum(one["shares"]) for one in mix["windows"]["sources"]) == pytest.approx(1)


def test_stages_stand_side_by_side(mixed: Path) -> None:
    report = report_of(mixed)
    first, second = report["mix"]["second"]["stages"]
    assert "stages" not in report["mix"]["first"]
    assert (first["dataset"], second["dataset"]) == ("first", "second")
    for name in ("web", "old"):
        sources = [
            one
            for stage in ("first", "second")
            for one in report["mix"][stage]["sources"]
            if one["source"] == name
        ]
        seen = sum(one["documents"] for one in sources) / sources[0]["available_documents"]
        assert second["seen"][name] == seen
        assert second["shares"][name] == sources[1]["share"]


def test_page_terminal_plan_and_status_show_the_mix(
    mixed: Path, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = report_of(mixed)
    report = Report.model_validate(content)
    page = render_page(report)
    for part in (
        "Shares of the sources of first",
        "Stages up to this one",
        "Windows of the order of training",
    ):
        assert part in page
    assert page.count("copies of documents that the mix has are in the rows, each once and whole") == 4
    for stage in flow_stages(report):
        gone = sum(number for _, number, what in stage.gone if what == "documents")
        assert stage.documents_in + stage.copies == stage.documents_out + gone
        assert not stage.copies or f"{stage.copies:,} copies added by the mix" in page
    assert any(stage.copies for stage in flow_stages(report))
    mix = report.mix["first"]
    assert draw_shares(mix).count("<path") == 2 + 2 * len(mix.sources)
    assert draw_windows(mix).count("<circle") == len(mix.sources)
    print_report(RunReport(content), as_json=False)
    line = mix_line("first", mix)
    assert "(asked 30.00%)" in line
    assert line in capsys.readouterr().out
    print_status({mixed: known_steps(mixed)}, as_json=False)
    assert line in capsys.readouterr().out
    request = RunRequest(mixed_file(), corpus, mixed, 0)
    print_plan(plan_session(request), as_json=False)
    said = capsys.readouterr().out
    assert f"old share 0.3 ({mix.sources[1].planned_tokens:,} tokens" in said
    print_plan(plan_session(replace(request, output=mixed.parent / "none")), as_json=False)
    assert "mix-second: web epochs 1, old share 0.3, after first" in capsys.readouterr().out


def test_names_are_escaped_in_pictures(mixed: Path) -> None:
    mix = report_of(mixed)["mix"]["first"]
    mix["sources"][0]["source"] = mix["windows"]["sources"][0]["source"] = "<b>&"
    evil = MixAudit.model_validate(mix)
    assert "<b>" not in draw_shares(evil) + draw_windows(evil)


def test_another_tolerance_makes_verify_alone_anew(mixed: Path, corpus: Path) -> None:
    file = mixed_file()
    looser = file.model_copy(update={"mix": file.mix.model_copy(update={"tolerance": 0.1})})
    states = {one.step.name: one.state for one in plan_session(RunRequest(looser, corpus, mixed, 0))}
    assert {name for name, state in states.items() if state != "done"} == {"verify-first"}


def test_a_tolerance_that_the_plan_misses_is_one_finding_about_the_rows(
    mixed: Path, corpus: Path, tmp_path: Path
) -> None:
    run, file = Path(shutil.copytree(mixed, tmp_path / "run")), mixed_file()
    tight = file.model_copy(update={"mix": file.mix.model_copy(update={"tolerance": 1e-9})})
    report = run_session(RunRequest(tight, corpus, run, 0, replace=True), stream=None)
    (finding,) = report["verify"]["first"]["findings"]
    assert (finding["check"], finding["file"]) == ("mix_share", "datasets/first/train")


def test_an_exchanged_record_of_the_mix_fails_the_gate(mixed: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(mixed, tmp_path / "run"))
    path = run / "commits" / "mix-first" / "_step.json"
    said = Commit.model_validate_json(path.read_bytes())
    record = said.read(MixRecord)
    (one, *others) = record.classes
    fewer = one.model_copy(update={"documents": one.documents - 1, "tokens": one.tokens - 9})
    changed = record.model_copy(update={"classes": (fewer, *others)}).model_dump(mode="json")
    path.write_bytes(canonical_json(said.model_copy(update={"record": changed}).sealed()))
    report = verify_session(run, workers=0, address=None, stream=None)
    assert report["passed"] is False
    finding, *further = report["verify"]["first"]["findings"]
    assert {said["file"] for said in further} <= {"commits/mix-first/_step.json"}
    assert (finding["check"], finding["file"]) == ("mix_copies", "datasets/first/train")
    assert report["verify"]["second"]["passed"]
    assert "FAIL: classes that differ from the plan" in mix_line(
        "first", MixAudit.model_validate(report["mix"]["first"])
    )


def counts_of(run: Path) -> list[MixCounts]:
    """Return what is counted of the training shards of the first stage."""
    folder = run / "datasets/first/train"
    manifest = read_manifest(folder)
    return [
        count_shard(folder, number, map_shard(folder, shard, manifest), manifest, mixed=True)
        for number, shard in enumerate(manifest.shards)
    ]


def test_rows_of_other_documents_fail_the_gate_by_their_own_count(mixed: Path, tmp_path: Path) -> None:
    """The gate needs no other check: no list of documents that is held to the token store."""
    run = Path(shutil.copytree(mixed, tmp_path / "run"))
    mix = mixed_file().mix_of(mixed_file().datasets[0])
    assert mix is not None
    path = run / "commits" / "mix-first" / "_step.json"
    record = Commit.model_validate_json(path.read_bytes()).read(MixRecord)
    assert audit_mix(count_mix(counts_of(run), mix, record))[1] == []
    listed = max(
        (run / "datasets/first/train/epoch-0000").glob("*/documents.parquet"),
        key=lambda path: len(set(pq.read_table(path).column("source").to_pylist())),
    )
    table = pq.read_table(listed)
    other = ["old" if name == "web" else "web" for name in table.column("source").to_pylist()]
    place = table.column_names.index("source")
    pq.write_table(table.set_column(place, table.schema.field("source"), pa.array(other)), listed)
    found = audit_mix(count_mix(counts_of(run), mix, record))[1]
    assert {one.check for one in found} >= {"mix_copies"}


def test_generations_add_up(mixed: Path) -> None:
    def packed(source: str, tokens: int) -> PackedClass:
        return PackedClass(
            source=source, language="en", documents=2, tokens=tokens, tokens_cut=0, longest=9
        )

    found = add_generations(
        [{"clm": (packed("old", 30), packed("web", 50))}, {"clm": (packed("web", 20),)}]
    )
    assert {name: one.model_dump(mode="json") for name, one in found.items()} == {
        "clm": {
            "generations": 2,
            "documents": 6,
            "tokens": 100,
            "sources": {
                "old": {"documents": 2, "tokens": 30, "share": 0.3},
                "web": {"documents": 4, "tokens": 70, "share": 0.7},
            },
        }
    }
    verdicts = verdicts_in(mixed)
    own = {name: one.packed["train"] for name, one in verdicts.items()}
    assert wholes_of(mixed, own) == {}
    (mixed / "generations").mkdir()
    later = wholes_of(mixed / "generations" / "0001", own)
    (mixed / "generations").rmdir()
    tokens = sum(one.tokens for one in own["first"])
    assert (later["first"].generations, later["first"].tokens) == (2, 2 * tokens)
    assert mixes_of(mixed_file(), {"first": verdicts["first"]}).keys() == {"first"}


def test_a_source_of_which_nothing_is_left_is_warned_of() -> None:
    amounts = {"web": SourceMix(), "wiki": SourceMix(epochs=2), "none": SourceMix(epochs=0)}
    mix = DatasetMix(sources=amounts)
    planned = plan_mix(corpora.counts_of([corpora.Document("web", "en", 0, 5, 100)]), mix, dataset="clm")
    (warning,) = nothing_taken(planned, mix, dataset="clm")
    assert "dataset 'clm': mix: it has no document of source 'wiki', which has epochs = 2" in warning
    left_out = mix.model_copy(update={"missing": "leave_out"})
    assert nothing_taken(planned, left_out, dataset="clm") == ()


def test_verify_finds_the_largest_training_document_and_no_larger_one_that_is_held_out(
    mixed: Path,
) -> None:
    stored = [pq.read_table(path).to_pylist() for path in (mixed / "tokens").rglob("documents.parquet")]
    listed = (mixed / "datasets/first/validation").rglob("documents.parquet")
    held_out = {name for path in listed for name in pq.read_table(path).column("id").to_pylist()}
    tokens = {one["id"].hex(): one["tokens"] for part in stored for one in part}
    largest = max(count for name, count in tokens.items() if name not in held_out)
    assert largest < max(tokens.values())
    for name in ("first", "second"):
        checked = dict(Commits(LocalStorage(mixed)).all(f"verify-{name}"))["mix"].read(MixFindings)
        assert checked.largest == largest


@pytest.mark.parametrize(
    ("counted", "largest"), [((), 0), ((5,), 5), ((3, 8, 5), 8), ((8, None), None), ((None, 3), None)]
)
def test_the_largest_document_is_known_only_if_every_unit_counted_it(
    counted: tuple[int | None, ...], largest: int | None
) -> None:
    assert largest_of(MixUnitRecord(documents=1, largest=one) for one in counted) == largest


def test_a_mix_that_the_token_store_cannot_give_is_a_finding_and_ends_no_check(
    mixed: Path, tmp_path: Path
) -> None:
    mix = mixed_file().mix_of(mixed_file().datasets[0])
    assert mix is not None
    checked = check_mix(Workspace(mixed, tmp_path), MixChoice("first", (), mix, None, 0))
    (finding,) = checked.findings
    assert (finding.file, finding.check) == ("mix/first.parquet", "readable")
    assert "no source with epochs has a token to take" in finding.message
