"""What a forecast of duplicates promises: about what the run removes, with limits held against it."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.inputs.files import find_inputs
from pipeline.inputs.place_files import open_place
from pipeline.inputs.spread_records import chance_records, spread_records
from pipeline.report.report import Report
from pipeline.run_file.config import RunFile
from pipeline.session.request import RunRequest
from pipeline.session.session import run_session
from pipeline.tools.forecast.duplicates import (
    SampledGroups,
    draw_by_chance,
    duplicates_forecast,
    sampled_groups,
    share_of,
)
from pipeline.tools.forecast.forecast import forecast_run
from pipeline.tools.forecast.notes import drawn_fields
from pipeline.tools.forecast.terminal import duplicates_lines
from tests.pipeline.test_dedup_limits import letters, run_file, unlike, write

pytestmark = pytest.mark.usefixtures("measured_once")
SLOW = pytest.mark.slow


def forecast(file: RunFile, corpus: Path, share: float) -> Any:
    content = file.model_dump(mode="json")
    content["tokenizer"]["train"]["vocab_size"] = 600
    request = RunRequest(RunFile.model_validate(content), corpus, corpus / "never", 0)
    return forecast_run(request, share=share)


def drawn(corpus: Path, share: float, pattern: str = "*.jsonl") -> list[str]:
    source = {"name": "s", "paths": [pattern]}
    file = RunFile.model_validate({"sources": [source], "datasets": [{"name": "clm"}]})
    found = []
    for one in find_inputs(file, corpus).files:
        with open_place(one.place, key="sources.s") as opened:
            found += [record.text for record in chance_records(one, opened, 1 << 20, share=share)]  # type: ignore[union-attr]
    return found


def test_neighbours_are_drawn_together_as_often_as_any_two(tmp_path: Path) -> None:
    texts = [str(n) for n in range(20_000)]
    write(tmp_path, a=texts)
    numbers = {int(text) for text in drawn(tmp_path, 0.2)}
    assert len(numbers) == pytest.approx(4_000, rel=0.05)
    pairs = sum(number + 1 in numbers for number in numbers)
    assert pairs == pytest.approx(800, rel=0.15)


def test_an_empty_text_is_a_record_however_it_is_drawn(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    source = {"name": "s", "paths": ["a.txt"]}
    file = RunFile.model_validate({"sources": [source], "datasets": [{"name": "clm"}]})
    (one,) = find_inputs(file, tmp_path).files
    with open_place(one.place, key="sources.s") as opened:
        (by_chance,) = chance_records(one, opened, 1 << 20, share=1.0)
        ((share, spread),) = spread_records(one, opened, 1 << 20, share=1.0, spread=1.0)
    assert (share, spread) == (1.0, by_chance)


def test_tables_are_drawn_like_lines(tmp_path: Path) -> None:
    texts = [f"text {n}" for n in range(5_000)]
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet", row_group_size=700)
    assert len(drawn(tmp_path, 0.2, "*.parquet")) == pytest.approx(1_000, rel=0.1)
    assert drawn(tmp_path, 1.0, "*.parquet") == texts


def test_groups_are_those_of_a_run_overall_and_by_source(tmp_path: Path) -> None:
    corpus = write(tmp_path / "c", a=[*unlike(4), *unlike(2), *letters(1)], b=[*unlike(3), *letters(2)])
    output = tmp_path / "run"
    file = run_file("a", "b", dedup={"near": False})
    report = run_session(RunRequest(file, corpus, output, 0, until="dedup"), stream=None)
    groups = sampled_groups(output, Report.model_validate(report), file)
    assert groups is not None
    # unlike 0 and 1 three times, 2 and a letter twice, 3 and another letter once
    assert groups.overall == {1: 2, 2: 2, 3: 2}
    assert groups.sources == {"a": {1: 3, 2: 2}, "b": {1: 5}}
    assert groups.largest == 3


def test_the_rules_of_sources_go_along_with_a_sample(tmp_path: Path) -> None:
    """`free` is kept whatever it repeats, and `own` repeats what others have, and itself."""
    texts = unlike(40)
    corpus = write(tmp_path / "c", all=texts * 2, free=texts * 2, own=texts * 3)
    rules = {"free": {"dedup": False}, "own": {"dedup": "within"}}
    file = run_file("all", "free", "own", "none", dedup={"near": False}, **rules)
    (corpus / "none.jsonl").write_text("")
    (tmp_path / "sample").mkdir()
    sources = draw_by_chance(file, find_inputs(file, corpus).files, tmp_path / "sample", share=0.999)
    assert [source.dedup for source in sources] == [True, False, "within", True]
    sampled = file.model_copy(update={"sources": sources})
    output = tmp_path / "run"
    report = run_session(RunRequest(sampled, corpus, output, 0, until="dedup"), stream=None)
    groups = sampled_groups(output, Report.model_validate(report), file)
    assert groups is not None
    assert groups.untouched == {"free": 80}
    assert groups.sources == {"all": {2: 40}, "own": {3: 40}, "none": {}}
    assert groups.overall == {2: 40, 3: 40}
    found = duplicates_forecast(groups, file, share=1.0, by_chance=True)
    assert found["all"]["removed"] == 40 + 80
    assert (found["sources"]["free"]["documents"], found["sources"]["free"]["high"]) == (80, 0.0)


def test_documents_of_an_earlier_run_count_as_they_are(tmp_path: Path) -> None:
    texts = unlike(300)
    old = write(tmp_path / "old", a=texts[:200])
    run_session(RunRequest(run_file("a"), old, tmp_path / "first", 0, until="dedup"), stream=None)
    new = write(tmp_path / "new", b=[*texts[100:], *texts[250:]])
    file = run_file("b", dedup={"against": ["../first"]})
    output = tmp_path / "then"
    report = run_session(RunRequest(file, new, output, 0, until="dedup"), stream=None)
    groups = sampled_groups(output, Report.model_validate(report), file)
    assert groups is not None
    assert groups.earlier == {"b": 100}
    assert groups.overall == groups.sources["b"] == {1: 50, 2: 50}
    content = duplicates_forecast(groups, file, share=1.0, by_chance=True)
    assert content["all"]["removed"] == 150
    assert content["all"]["documents"] == 250
    thin = duplicates_forecast(groups, file, share=0.01, by_chance=True)["all"]
    assert thin["low"] > 0.3, "what earlier runs have goes whatever else is in the sample"


def test_the_interval_of_a_share_is_wilson_s() -> None:
    likely, low, high = share_of(10, 100, whole=False)
    assert (likely, round(low, 4), round(high, 4)) == (0.1, 0.0552, 0.1744)
    assert share_of(10, 100, whole=True) == (0.1, 0.1, 0.1)
    assert share_of(0, 0, whole=False) == (0.0, 0.0, 0.0)


def test_a_field_that_a_sample_lacks_is_left_out_and_said(tmp_path: Path) -> None:
    rows = [{"url": None, "doi": "10.1", "quality": "good"}, {"url": " ", "quality": []}]
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    dedup = {"url": "url", "keys": ["doi"], "keep": {"column": "quality"}}
    file = run_file("s", dedup=dedup)
    sample = [
        source.model_copy(update={"paths": (str(tmp_path / "s.jsonl"),)}) for source in file.sources
    ]
    found, notes = drawn_fields(file, sample)
    assert (found.dedup.url, found.dedup.keys, found.dedup.keep) == (None, ("doi",), "first")
    assert [note.split(":")[0] for note in notes] == [
        "dedup names the field 'url'",
        "dedup names the field 'quality'",
    ]
    assert drawn_fields(run_file("s"), sample) == (run_file("s"), [])


def limited(groups: dict[int, int], share: float, **dedup: Any) -> list[str]:
    found = SampledGroups(groups, {"a": groups}, max(groups))
    return duplicates_forecast(found, run_file("a", dedup=dedup), share=share, by_chance=True)["limits"]


def test_limits_are_held_against_a_forecast() -> None:
    (said,) = limited({200: 1}, 0.02)
    assert said.startswith("the run would stop at dedup.max_removed_fraction = 0.9: ")
    assert limited({1: 1_000, 2: 100}, 0.5) == []
    (said,) = limited({1: 1_000, 40: 1}, 0.1, max_cluster_size=300)
    assert said == (
        "the run would probably stop at dedup.max_cluster_size = 300: the largest cluster has about 400"
        " documents"
    )
    (said,) = limited({1: 50_000, 2: 10}, 0.5, max_cluster_size=300)
    assert said == (
        "the run would not stop at dedup.max_cluster_size = 300: the sample would show about 150"
        " documents of such a cluster, and has 2 of its largest one"
    )
    (said,) = limited({1: 1_000, 2: 10}, 0.01, max_cluster_size=300)
    assert said.startswith(
        "the sample is too small to tell whether the run would stop at dedup.max_cluster"
    )
    (said,) = limited({1: 50_000}, 0.5, max_removed_fraction=0.5)
    assert said.startswith("the run would not stop at dedup.max_removed_fraction = 0.5: at most ")
    (said,) = limited({1: 10_000, 2: 3}, 0.001, max_removed_fraction=0.1)
    assert "the run " in said, "a limit that is set is always spoken of"
    (said,) = limited({40: 1}, 0.5, max_removed_fraction=0.1)
    assert said.endswith("fewer than 100 documents go, and then it does not hold")
    assert limited({1: 10}, 0.001) == [], "of so little nothing is said"
    assert limited({50: 1}, 1.0) == [], "fewer than 100 are removed"


def test_a_sample_that_tells_nothing_says_so() -> None:
    found = SampledGroups({1: 30}, {"a": {1: 30}}, 1)
    content = duplicates_forecast(found, run_file("a"), share=0.01, by_chance=True)
    (line,) = duplicates_lines(content)
    assert line.startswith("duplicates: between 0.0% and ")
    assert line.endswith("30 sampled documents allow no closer figure; use a larger --sample")


def test_people_are_told_what_a_sample_cannot_show() -> None:
    groups = SampledGroups({1: 900, 2: 30}, {"a": {1: 450}, "b": {1: 450, 2: 30}}, 2)
    dedup: dict[str, Any] = {"containment": {}, "semantic": {}}
    for by_chance in (True, False):
        content = duplicates_forecast(
            groups, run_file("a", "b", dedup=dedup), share=0.5, by_chance=by_chance
        )
        lines = list(duplicates_lines(content))
        assert sum(line.startswith("  not forecast: ") for line in lines) == 3
        assert any("dedup.containment" in line for line in lines)
        assert any("dedup.semantic" in line for line in lines)
        assert any("the truth may lie outside of these figures" in line for line in lines) != by_chance


@SLOW
def test_a_forecast_tells_what_the_run_removes(tmp_path: Path) -> None:
    texts = unlike(1_500)
    corpus = write(tmp_path / "corpus", a=[text for text in texts for _ in range(2)], b=unlike(40))
    file = run_file("a", "b", dedup={"near": False})
    found = forecast(file, corpus, 0.4)["duplicates"]
    truth = 1_540 / 3_040
    assert found["by_chance"]
    assert found["all"]["low"] - 0.01 < truth < found["all"]["high"] + 0.01
    assert found["all"]["high"] - found["all"]["low"] < 0.12
    assert found["sources"]["a"]["low"] - 0.01 < 0.5 < found["sources"]["a"]["high"] + 0.01
    whole = forecast(file, corpus, 1.0)
    assert whole["duplicates"]["all"]["removed"] == 1_540
    assert whole["kept"] == 1_500
    assert json.dumps(whole["duplicates"])


@SLOW
def test_limits_do_not_stop_the_run_of_a_sample(tmp_path: Path) -> None:
    corpus = write(tmp_path / "corpus", same=letters(1) * 2_000, other=unlike(80))
    found = forecast(run_file("same", "other", same={"max_removed_fraction": 0.5}), corpus, 0.2)
    assert found["duplicates"]["all"]["likely"] > 0.95
    assert [line.split(":")[0] for line in found["duplicates"]["limits"]] == [
        "the run would stop at dedup.max_removed_fraction = 0.9",
        "the run would stop at sources.same.max_removed_fraction = 0.5",
    ]


@SLOW
def test_without_deduplication_nothing_is_forecast(tmp_path: Path) -> None:
    corpus = write(tmp_path / "corpus", a=unlike(100))
    off = {"exact": False, "near": False}
    assert forecast(run_file("a", dedup=off), corpus, 0.5)["duplicates"] is None
