"""What a run's measuring on parallel text promises.

Its numbers are those of `tokenizer compare`; it is done again only if what it is measured on changed,
and never makes anything else again; limits stop a run before texts are encoded.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from pipeline.inputs.languages import bundled_declarations
from pipeline.inputs.parallel_text import resolve_fairness
from pipeline.report.fairness import (
    fairness_of,
    mix_table,
    parity_picture,
    parity_table,
    tokenizer_table,
)
from pipeline.report.report import Fairness
from pipeline.run_file.config import FairnessSection, RunFile, TokenizerLimits
from pipeline.session.request import RunRequest
from pipeline.session.session import plan_session, run_session
from pipeline.state.journal import read_log
from pipeline.steps.tokenizer.limits import (
    LanguageCosts,
    cost_warnings,
    costs_of,
    coverage_warnings,
    require_limits,
)
from pipeline.steps.tokenizer.load import tokenizer_of
from pipeline.steps.tokenizer.parallel import PARITY, ParallelRecord
from pipeline.steps.tokenizer.training import TokenizerRecord
from pipeline.tools.tokenizer.compare import compare_tokenizers
from stages.cleaning.text import clean_text
from stages.errors import ConfigError, DataError, FormatError, ShardmillError, VerificationError
from stages.tokenizer.fairness import TextCounter
from stages.tokenizer.train_config import TokenizerModel, TrainConfig
from tests.conftest import bundled_lines
from tests.pipeline.reports import report_with
from tests.stages.tokenizer.existing_files import data_of

SENTENCES = {
    "en": ["the cat sat", "a mat and a rat", "", "he ran"],
    "de": ["die Katze sa\u00df", "eine Matte und eine Ratte", "x", "er lief"],
    "el": ["\u03b7 \u03b3\u03ac\u03c4\u03b1", "\u03ad\u03bd\u03b1 \u03c7\u03b1\u03bb\u03af", "y", "z"],
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A corpus of German and code, parallel text and two tokenizers."""
    rows = [{"text": f"Die Katze {n} sitzt auf der Matte.", "lang": "deu_Latn"} for n in range(8)]
    rows += [{"text": f"x = {n} * {n}  # \U0001f9ed\u1200", "lang": "code"} for n in range(8)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "parallel").mkdir()
    for language, lines in SENTENCES.items():
        content = "\n".join(lines) + "\n"
        (tmp_path / "parallel" / f"{language}.txt").write_text(content, encoding="utf-8")
    for name in ("gpt2", "bert"):
        (tmp_path / f"{name}.json").write_bytes(data_of(name))
    return tmp_path


def run_of(**tokenizer: Any) -> RunFile:
    """Return a run with an existing tokenizer, measured beside another."""
    fairness = {"parallel": "parallel", "compare": ["bert=bert.json"]}
    content: dict[str, Any] = {
        "sources": [{"name": "some", "paths": ["a.jsonl"], "language": {"column": "lang"}}],
        "dedup": {"exact": False, "near": False},
        "tokenizer": {"path": "gpt2.json", "fairness": fairness, **tokenizer},
        "validation": {"fraction": 0.0},
        "packing": {"seq_len": 64, "shards": 1},
        "datasets": [{"name": "clm"}],
    }
    return RunFile.model_validate(content)


def session(place: Path, file: RunFile, *, until: str, replace: bool = False) -> Any:
    request = RunRequest(file, place, place / "run", workers=0, until=until, replace=replace)
    return run_session(request, stream=None)


def dispatched(place: Path, since: int) -> list[tuple[str, str]]:
    log = list(read_log(place / "run"))[since:]
    return [(event["step"], event["unit"]) for event in log if event["event"] == "dispatch"]


def test_the_package_brings_the_declarations_of_the_bundled_corpus() -> None:
    chosen: dict[str, tuple[str, list[str]]] = {}
    for line in bundled_lines("text/human-rights*", 1 << 20):
        record = orjson.loads(line)
        translation = record["id"].partition("#")[0]
        first, parts = chosen.setdefault(record["lang"], (translation, []))
        if first == translation:
            parts.append(clean_text(record["text"]))
    assert len(chosen) == 62
    assert bundled_declarations() == {language: parts for language, (_, parts) in chosen.items()}


def test_a_run_measures_as_compare_does_stops_at_a_limit_and_goes_on(place: Path) -> None:
    limited = run_of(limits={"max_parity": 1.01})
    with pytest.raises(
        VerificationError, match=r"max_parity = 1.01: .*divided by those of en: deu_Latn 1\."
    ) as stop:
        session(place, limited, until="tokenize")
    assert "el" not in str(stop.value).partition("(all languages")[0].partition("tokens of en: ")[2]
    assert not (place / "run" / "tokens").exists()
    found = json.loads((place / "run" / PARITY).read_text())
    paths = (f"run={place / 'gpt2.json'}", f"bert={place / 'bert.json'}")
    compared = compare_tokenizers(paths, parallel=place / "parallel")["parallel"]
    assert compared is not None
    assert all(found[key] == compared[key] for key in ("languages", "total", "sentences", "left_out"))
    assert str(place) not in (place / "run" / PARITY).read_text()

    since = len(list(read_log(place / "run")))
    raised = run_of(limits={"max_parity": 9.0})
    report = session(place, raised, until="tokenize")
    assert {step for step, _ in dispatched(place, since)} == {"split", "tokenize"}
    assert set(report["fairness"]["languages"]) == {"deu_Latn"}
    assert not [line for line in report["warnings"] if "same text" in line]
    assert [line for line in report["warnings"] if "many byte tokens in encoded text: code" in line]
    records = [json.loads(line) for line in (place / "a.jsonl").read_text().splitlines()]
    counter = TextCounter(tokenizer_of(place / "run").codec)
    for row in report["languages"]:
        texts = [record["text"] for record in records if record["lang"] == row["language"]]
        assert row["byte_tokens"] == sum(one.byte_tokens for one in counter.count(texts))
    assert sum(row["byte_tokens"] for row in report["languages"]) > 0

    (place / "parallel" / "de.txt").write_text("eins\nzwei\ndrei\nvier\n")
    (status,) = (one for one in plan_of(place, raised) if one.step.name == "tokenizer")
    assert status.stale == ("measure",)
    assert status.why == "what measure alone depends on changed"
    since = len(list(read_log(place / "run")))
    session(place, raised, until="tokenize", replace=True)
    assert dispatched(place, since) == [("tokenizer", "measure")]
    assert json.loads((place / "run" / PARITY).read_text())["left_out"] == 1

    (place / "run" / PARITY).write_text("{")
    assert fairness_of(place / "run", ["deu_Latn"]) is None


def test_tables_show_shares_of_the_whole_and_those_that_pay_most_first() -> None:
    languages: Any = [
        {"language": "en", "documents": 3, "bytes": 60, "tokens": 20, "byte_tokens": 1},
        {"language": "th", "documents": 1, "bytes": 30, "tokens": 20, "byte_fallback": 0.25},
        {"language": "a", "documents": 1, "bytes": 5, "tokens": 5, "byte_tokens": 0},
        {"language": "b", "documents": 0, "bytes": 5, "tokens": 5, "byte_tokens": 0},
    ]
    counts = dict.fromkeys(
        ("documents", "padding", "cut_documents", "tokens_behind_cuts", "tokens_cut"), 1
    )
    packed = [{**counts, "name": name, "tokens": n} for name, n in (("th", 30), ("en", 10), ("b", 10))]
    packing = {"clm": {"train": {"fingerprint": "", "sources": [], "languages": packed}}}
    report = report_with(languages=languages, packing=packing)
    table = mix_table(report, 2)
    assert table.headings[-4:] == ["in rows", "bytes/token", "byte tokens", "held out"]
    assert table.rows == [
        ("en", "3", "60.00%", "60", "60.00%", "20", "40.00%", "20.00%", "3.00", "5.00%", ""),
        ("th", "1", "20.00%", "30", "30.00%", "20", "40.00%", "60.00%", "1.50", "", "25.00%"),
        ("2 others", "1", "20.00%", "10", "10.00%", "10", "20.00%", "20.00%", "1.00", "0.00%", ""),
    ]
    plain = report_with(languages=[dict(list(languages[0].items())[:4])])
    assert mix_table(plain, 2).headings[-1] == "bytes/token"
    read = {"en": 4, "a": 2, "b": 1, "gone": 5}
    before = mix_table(report.model_copy(update={"languages_before": read}), 2)
    assert before.headings[:2] == ["language", "before"]
    assert [row[:2] for row in before.rows] == [("en", "4"), ("th", "0"), ("2 others", "8")]
    own = {"tokens": 10.0, "parity": 1.0, "byte_fallback": 0.5, "uncovered_characters": 0.1}
    own |= {"tokens_per_text": 5.0, "tokens_per_word": 2.0, "tokens_per_character": 0.25}
    fairness = Fairness(
        reference="en",
        unit="sentence",
        sentences=2,
        tokenizers={"run": 300, "other": 400},
        languages={
            "en": {"run": own, "other": own},
            "th": {"run": {**own, "tokens": 30.0, "parity": 3.0, "byte_fallback": 0.1}, "other": own},
        },
    )
    shown = parity_table(fairness, 1)
    assert shown.headings[:4] == ("language", "parity", "parity of other", "tokens/sentence")
    assert shown.rows == [("th", "3.00", "1.00", "5.0", "2.00", "0.250", "10.00%", "10.00%")]
    assert shown.left_out == 1
    assert tokenizer_table(fairness).rows == [
        ("run", "300", "40", "2.00", "3.00 (th)", "20.00%"),
        ("other", "400", "20", "1.00", "1.00 (th)", "50.00%"),
    ]
    assert parity_picture(fairness, 9).count("<title>") == 2 + 4
    assert parity_picture(fairness, 1).count("<title>") < 2 + 4


def plan_of(place: Path, file: RunFile) -> Any:
    return plan_session(RunRequest(file, place, place / "run", workers=0))


def test_files_elsewhere_with_the_same_content_are_the_same(place: Path, tmp_path: Path) -> None:
    here = resolve_fairness(run_of(), place).tokenizer.fairness
    moved = tmp_path / "moved"
    moved.mkdir()
    for path in (place / "parallel").iterdir():
        (moved / path.name).write_bytes(path.read_bytes())
    moved_file = run_of(fairness={"parallel": "moved", "compare": ["bert=bert.json"]})
    there = resolve_fairness(moved_file, place).tokenizer.fairness
    assert here.parallel != there.parallel
    assert here.digests == there.digests
    assert sorted(here.digests or ()) == ["compare bert", "parallel de", "parallel el", "parallel en"]


@pytest.mark.parametrize(
    ("fairness", "kind", "match"),
    [
        ({"reference": "xx"}, ConfigError, "fairness.reference = xx: .* it has ar, az"),
        ({"parallel": "none"}, ConfigError, "fairness.parallel = .*none: no such folder"),
        ({"parallel": "parallel", "reference": "fr"}, ConfigError, "it has de, el, en"),
        ({"compare": ["a=none.json"]}, ConfigError, "compare a = '.*none.json': no such file"),
        ({"compare": ["a=a.jsonl"]}, FormatError, "compare a"),
        ({"compare": ["a=bert.json"], "digests": {}}, ConfigError, "digests: the files have"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_the_run(
    place: Path, fairness: Mapping[str, object], kind: type[ShardmillError], match: str
) -> None:
    with pytest.raises(kind, match=match):
        resolve_fairness(run_of(fairness=fairness), place)


def test_texts_that_are_not_parallel_are_refused_before_the_run(place: Path) -> None:
    (place / "parallel" / "de.txt").write_text("eins\n")
    with pytest.raises(DataError, match=r"fairness\.parallel = .*de has 1"):
        resolve_fairness(run_of(), place)


@pytest.mark.parametrize("models", [["gemma"], ["=x"], ["a=x", "a=y"], ["run=x"]])
def test_other_tokenizers_have_names_of_their_own(models: list[str]) -> None:
    with pytest.raises(ValueError, match=r"NAME=PATH|choose another"):
        FairnessSection.model_validate({"compare": models})


def costs(train: TrainConfig | None) -> LanguageCosts:
    record = TokenizerRecord(vocab_size=9, byte_fallback={"th": 0.3, "code": 0.2})
    measured = ParallelRecord(
        reference="en",
        parity={"en": 1.0, "th": 4.5, "my": 9.0},
        byte_fallback={"en": 0.0, "th": 0.5, "my": 0.9},
    )
    return costs_of(record, measured, ["en", "tha_Thai", "th", "code"], train=train)


def test_pieces_that_taught_nothing_are_told() -> None:
    section = run_of().tokenizer
    healthy = TokenizerRecord(vocab_size=9, skipped_pieces=0, skipped_bytes=3)
    assert list(coverage_warnings(healthy, section)) == []
    skipped = healthy.model_copy(update={"skipped_pieces": 1_200})
    assert "1,200 pieces of the sample" in "".join(coverage_warnings(skipped, section))


def test_what_is_proposed_fits_the_tokenizer() -> None:
    byte_level = costs(TrainConfig(model=TokenizerModel.BYTE_BPE))
    assert "character_coverage" in costs(TrainConfig()).way_out(of_bytes=True)
    assert "character_coverage" not in byte_level.way_out(of_bytes=True)
    assert "alpha" in byte_level.way_out(of_bytes=True)
    assert "tokenizer.path" in costs(None).way_out(of_bytes=True)


def test_limits_and_warnings_are_of_the_languages_of_the_corpus(tmp_path: Path) -> None:
    ours, existing = costs(TrainConfig()), costs(None)
    assert ours.byte_fallback == {"th": 0.3, "code": 0.2}
    assert existing.byte_fallback == {"en": 0.0, "tha_Thai": 0.5, "th": 0.5}
    assert ours.parity == existing.parity == {"en": 1.0, "tha_Thai": 4.5, "th": 4.5}
    both = TokenizerLimits(max_byte_fallback=0.25, max_parity=2.0)
    for one, shown, way in ((ours, "th 30.0%", "alpha"), (existing, "th 50.0%", "another tokenizer")):
        with pytest.raises(VerificationError) as stop:
            require_limits(one, both, tmp_path)
        for word in (shown, "th 4.50, tha_Thai 4.50", "No text is encoded yet", "--replace", way):
            assert word in str(stop.value)
        assert "my" not in str(stop.value).replace(str(tmp_path), "")
        require_limits(one, TokenizerLimits(max_byte_fallback=0.5, max_parity=4.5), tmp_path)
        fallback, parity = cost_warnings(one, TokenizerLimits())
        assert "many byte tokens" in fallback
        assert "max_parity stops a run" in parity
        assert not list(cost_warnings(one, both)), "a limit takes the place of its warning"
