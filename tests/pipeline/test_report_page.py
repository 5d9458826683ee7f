"""The page: its sections, its words, and that what it shows is what report.json holds."""

import re
import shutil
from html.parser import HTMLParser
from importlib.metadata import PackageNotFoundError
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from markupsafe import escape

from pipeline.report import made as made_module
from pipeline.report.clusters import marked
from pipeline.report.counted import Counted
from pipeline.report.flow import flow_stages
from pipeline.report.made import made_of
from pipeline.report.measured import MeasuredPoint
from pipeline.report.page import duration, render_page
from pipeline.report.report import Report
from pipeline.report.shown_rows import first_rows
from pipeline.report.similarity import similarity_of
from pipeline.report.words import GATES, GONE_SAID, STEP_SAID, said_of_reason, said_of_step
from pipeline.run_file.config import RunFile
from pipeline.session.request import RunRequest
from pipeline.session.session import run_session
from pipeline.steps.table import NAMES
from stages.columns import DropReason
from stages.filtering.length import EMPTY
from stages.reading.reader import StreamReader
from stages.reading.table import READERS
from tests.conftest import small_run
from tests.pipeline.few_texts import FEW

DATASETS: list[dict[str, Any]] = [
    {"name": "clm"},
    {"name": "mlm", "objective": {"kind": "mlm"}},
    {"name": "t5", "objective": {"kind": "span_corruption"}},
    {"name": "electra", "objective": {"kind": "electra"}},
]
VOID = {"meta", "br", "link", "img", "hr", "input"}


class Page(HTMLParser):
    """What a browser and a screen reader find: elements, links, headings, and whether all is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.levels: list[int] = []
        self.outside: list[str] = []
        self.unnamed: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what begins."""
        given = dict(attrs)
        if tag not in VOID:
            self.open.append(tag)
        self.ids += [given["id"] or ""] if "id" in given else []
        self.links += [given["href"] or ""] if "href" in given else []
        self.outside += [
            value or "" for key, value in attrs if key in ("src", "href") and "://" in str(value)
        ]
        if re.fullmatch("h[1-6]", tag):
            self.levels.append(int(tag[1]))
        if given.get("tabindex") is not None and not given.get("aria-label"):
            self.unnamed.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Pass over what is closed at once."""

    def handle_endtag(self, tag: str) -> None:
        """Hold what ends to what began last."""
        assert self.open.pop() == tag, f"</{tag}> closes nothing"


@pytest.fixture(scope="module")
def finished(few_texts: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunFile, Any]:
    """A run of several objectives to its end, whose learning is not checked."""
    output = tmp_path_factory.mktemp("page") / "run"
    file = small_run(datasets=DATASETS, **FEW)
    report = run_session(RunRequest(file, few_texts, output, 0), stream=None)
    return output, file, report


def page_of(run: Path) -> str:
    """The page that lies there."""
    return (run / "report" / "index.html").read_text(encoding="utf-8")


def test_the_page_is_well_formed_and_needs_nothing_from_elsewhere(
    finished: tuple[Path, RunFile, Any],
) -> None:
    html = page_of(finished[0])
    page = Page(html)
    assert not page.open
    assert len(page.ids) == len(set(page.ids))
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)
    assert not page.outside
    assert "<script" not in html
    assert page.levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(page.levels))
    assert not page.unnamed, "what the keyboard reaches has a name"
    assert html.count("<main ") == html.count("<h1>") == 1


def test_every_section_that_has_something_is_in_the_list_of_sections(
    finished: tuple[Path, RunFile, Any],
) -> None:
    html = page_of(finished[0])
    titles = re.findall(r'<li><a href="#\w+">([^<]+)</a></li>', html)
    assert titles == [
        "Can I train on it?",
        "What became of the documents",
        "What is gone, and why",
        "Duplicates",
        "What the texts are made of",
        "Languages",
        "The rows",
        "How it was checked",
        "Time and memory",
        "How it was made",
    ]


def test_the_flow_adds_up_step_by_step(finished: tuple[Path, RunFile, Any]) -> None:
    _, _, report = finished
    stages = flow_stages(Report.model_validate(report))
    assert [stage.step for stage in stages][:2] == ["ingest", "dedup"]
    assert stages[0].documents_in == report["documents"]["read"]
    for stage in stages:
        gone = sum(number for _, number, what in stage.gone if what == "documents")
        assert stage.documents_in == stage.documents_out + gone
    through = [stage for stage in stages if not stage.is_beside]
    shards = [stage for stage in through if stage.step.startswith("shard-")]
    line = through[: -len(shards)]
    for before, after in pairwise(line):
        assert before.documents_out == after.documents_in
    assert {stage.documents_in for stage in shards} == {line[-1].documents_out}


def test_similarities_are_those_of_the_table(finished: tuple[Path, RunFile, Any]) -> None:
    run, file, report = finished
    found = similarity_of(file, run)
    table = pq.read_table(run / "dedup" / "removed.parquet")
    near = [one["similarity"] for one in table.to_pylist() if one["method"] != "exact"]
    assert found is not None
    assert found.identical + len(near) == table.num_rows == sum(report["documents"]["removed"].values())
    expected, _ = np.histogram(near, bins=20, range=(0, 1))
    assert list(found.counts) == expected.tolist()
    clusters = pq.read_table(run / "dedup" / "clusters.parquet")["cluster"].to_pylist()
    assert found.clusters is not None
    assert sum(found.clusters.values()) == len(set(clusters))
    assert report["similarity"] == found.model_dump(mode="json")


def test_without_near_duplicates_no_chance_is_measured(
    finished: tuple[Path, RunFile, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, file, _ = finished
    point = MeasuredPoint(similarity=0.5, pairs=1, compared=1.0)
    monkeypatch.setattr("pipeline.report.similarity.measured_curve", lambda *_: (point,))
    shutil.copytree(run / "dedup", tmp_path / "dedup")
    table = pq.read_table(run / "dedup" / "removed.parquet")
    measured = []
    for method in ("exact", "minhash"):
        rows = [row | {"method": method, "similarity": 0.9} for row in table.to_pylist()]
        changed = pa.Table.from_pylist(rows, table.schema)
        pq.write_table(changed, tmp_path / "dedup" / "removed.parquet")
        found = similarity_of(file, tmp_path)
        assert found is not None
        measured.append(found.measured)
    assert measured == [(), (point,)]


def test_a_row_of_each_dataset_is_drawn_with_what_the_model_is_to_find(
    finished: tuple[Path, RunFile, Any],
) -> None:
    run, _, report = finished
    rows = report["rows"]
    assert set(rows) == {"clm", "mlm", "t5", "electra"}
    assert [one["name"] for one in rows["t5"]["sequences"]] == ["input_ids", "labels"]
    hidden = [one for one in rows["mlm"]["sequences"][0]["tokens"] if one["was"] is not None]
    assert hidden
    assert {"masked"} <= {one["css"] for one in hidden} <= {"masked", "random"}
    assert any(one["css"] == "replaced" for one in rows["electra"]["sequences"][0]["tokens"])
    html = page_of(run)
    assert html.count('<div class="row"') == 5
    assert all(f"<s>{escape(one['was'])}</s>" in html for one in hidden)
    assert first_rows(run, {"none": {"train": "x"}}, Counted(run)) == {}


def test_how_it_was_made_names_what_differs_from_the_defaults(
    finished: tuple[Path, RunFile, Any],
) -> None:
    run, file, report = finished
    made = report["made"]
    assert made["settings"]["packing.seq_len"] == "64"
    assert made["settings"]["sources.mixed.id_column"] == "id"
    assert made["settings"]["datasets.mlm.objective.kind"] == "mlm"
    assert "dedup.near" not in made["settings"]
    assert made["attempts"] == 1
    assert made["workers"] == 0
    assert made_of(file, run).began == made["began"]
    assert made_of(file, run.parent / "none").began is None


def test_code_that_is_not_installed_writes_reports_too(
    finished: tuple[Path, RunFile, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def version_of(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(made_module, "version", version_of)
    monkeypatch.setattr(made_module, "installed", made_module.installed.__wrapped__)
    run, file, _ = finished
    assert made_of(file, run).shardmill == "not installed"
    assert made_of(file, run).libraries == {}


def test_all_steps_reasons_and_gates_have_words() -> None:
    assert len(set(STEP_SAID.values())) == len(NAMES)
    reasons = {*map(str, DropReason), "exact", "minhash", "containment", "semantic", "contaminated"}
    reasons |= {reason for one in READERS if isinstance(one, StreamReader) for reason, _ in one.drops}
    assert "not_a_page" in reasons
    assert not [one for one in reasons if said_of_reason(one).startswith("filter ")]
    assert said_of_reason("c4.lines") == "filter c4.lines"
    assert not said_of_reason(EMPTY).startswith("filter ")
    assert said_of_step("shard-my-set") == "pack into rows: my-set"
    assert all(words.title and words.why for words in GATES.values())
    assert "exact" in GONE_SAID


def test_words_that_differ_are_marked_and_other_people_s_texts_are_texts() -> None:
    assert (
        marked("the <b>red</b> fox", "the <b>big</b> fox")
        == "the &lt;b&gt;<mark>red</mark>&lt;/b&gt; fox"
    )
    assert marked("same", "same") == "same"
    assert marked("a\x1b]0;x", None) == "a\\x1b]0;x"


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.4, "0 s"), (59.6, "1 min 0 s"), (72, "1 min 12 s"), (7_384, "2 h 3 min")]
)
def test_times_are_said_as_people_say_them(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_a_page_of_a_run_that_was_stopped_says_that_nothing_is_known_yet(
    small_corpus: Path, tmp_path: Path
) -> None:
    run_session(RunRequest(small_run(), small_corpus, tmp_path / "run", 0, until="dedup"), stream=None)
    html = page_of(tmp_path / "run")
    Page(html)
    assert "NOT VERIFIED" in html
    assert "The rows" not in html


def test_every_number_of_the_page_is_in_the_json(finished: tuple[Path, RunFile, Any]) -> None:
    run, _, _ = finished
    report = Report.model_validate_json((run / "report" / "report.json").read_bytes())
    assert render_page(report) == page_of(run)
