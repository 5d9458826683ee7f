"""What a run with an existing tokenizer promises.

The file is the run's as it is; rows hold its library's ids; what it cannot give back is counted, and
what was damaged is found all the same; a dataset that could not be made with it is refused by the plan.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import sentencepiece
import tokenizers

from pipeline.engine.tasks import Workspace
from pipeline.planning.plan import State
from pipeline.report.inspection import inspect
from pipeline.report.terminal import print_report
from pipeline.run_file.config import RunFile
from pipeline.session.request import RunRequest
from pipeline.session.session import plan_session, run_session
from pipeline.session.verifying import verify_session
from pipeline.state.commits import STEP_COMMIT, Commits
from pipeline.state.storage import LocalStorage
from pipeline.steps.decode import check as decode
from pipeline.steps.ingest.step import IngestRecord
from pipeline.steps.records import FoundIn
from pipeline.steps.split.choice import SplitRecord
from pipeline.steps.tokenizer.adopt import AdoptedTokenizer, adopt_tokenizer
from pipeline.steps.units import Unit, units_of
from stages.errors import ConfigError, FormatError
from stages.loading.dataset import open_dataset
from stages.store.manifest import read_manifest
from stages.store.token_store import TokenUnit
from stages.tokenizer.existing import TokenizerKind
from tests.conftest import digests
from tests.stages.tokenizer.existing_files import EXTRA, data_of, kind_of_file, texts

pytestmark = pytest.mark.slow

SPAN = {"kind": "span_corruption", "mean_noise_span_length": 4.0}
BERT = {"special": {"eos": "[SEP]", "bos": "[CLS]"}}
CHARACTERS = {"kind": "fim", "level": "character", "fim_rate": 1.0}
LAST = {"fim_prefix": 1497, "fim_middle": 1498, "fim_suffix": 1499, "pad": 1496}
RUNS: dict[str, dict[str, Any]] = {
    "gpt2": {"objectives": [{"kind": "clm"}]},
    "bert": {
        "objectives": [{"kind": "mlm"}, {"kind": "nsp"}, {"kind": "bart"}],
        "tokenizer": BERT,
    },
    "t5": {"objectives": [SPAN]},
    "llama-model": {"objectives": [CHARACTERS], "tokenizer": {"special": LAST}},
}
"""Of each file, datasets that can be made with it."""
WRITTEN = "Text may write <|endoftext|> or </s>, [SEP], [MASK] and <extra_id_0>: it is text. \ua9c5\n"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few texts, some of which write special pieces out, and the tokenizers beside them."""
    folder = tmp_path_factory.mktemp("existing")
    rows = [{"text": text, "lang": "one"} for text in texts()]
    rows += [{"text": WRITTEN * number, "lang": "two"} for number in (1, 2, 30)]
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name in RUNS:
        (folder / name).mkdir()
        (folder / name / kind_of_file(name)).write_bytes(data_of(name))
    return folder


def run_file(name: str, **changes: Any) -> RunFile:
    """Return a run with an existing tokenizer; `changes` replace whole sections."""
    objectives = RUNS[name]["objectives"]
    tokenizer = {"path": f"{name}/{kind_of_file(name)}", **RUNS[name].get("tokenizer", {})}
    content: dict[str, Any] = {
        "seed": 5,
        "sources": [{"name": "some", "paths": ["a.jsonl"], "language": {"column": "lang"}}],
        "dedup": {"exact": False, "near": False},
        "ingest": {"unit_size": "100KiB"},
        "tokenizer": tokenizer,
        "validation": {"fraction": 0.05},
        "packing": {"seq_len": 64, "shards": 2},
        "datasets": [{"name": each["kind"], "objective": each} for each in objectives],
        "verify": {"learning": False},
    }
    return RunFile.model_validate({**content, **changes})


def run_it(corpus: Path, output: Path, file: RunFile, **options: Any) -> Any:
    return run_session(
        RunRequest(file, corpus, output, options.pop("workers", 0), **options), stream=None
    )


@pytest.fixture(scope="module", params=RUNS)
def name(request: pytest.FixtureRequest) -> str:
    """Return each of the files."""
    found: str = request.param
    return found


@pytest.fixture(scope="module")
def made(name: str, corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a whole run with that file."""
    output = tmp_path_factory.mktemp("made") / "run"
    report = run_it(corpus, output, run_file(name))
    (output / "found.json").write_text(json.dumps(report))
    return output


def report_of(made: Path) -> Any:
    report: dict[str, Any] = json.loads((made / "found.json").read_text())
    return report


def of_the_library(name: str, text: str) -> list[int]:
    """Return the ids of a text that writes no special piece out."""
    if kind_of_file(name) is TokenizerKind.HUGGING_FACE:
        library = tokenizers.Tokenizer.from_str(data_of(name).decode())
        return list(library.encode(text, add_special_tokens=False).ids)
    return list(sentencepiece.SentencePieceProcessor(model_proto=data_of(name)).encode(text))


def test_a_run_passes_and_has_the_file_as_it_was(name: str, made: Path) -> None:
    report = report_of(made)
    assert report["passed"]
    kind = kind_of_file(name)
    files = {path.name for path in (made / "tokenizer").iterdir()}
    assert files == {kind, "special_ids.json", "parity.json"}
    assert (made / "tokenizer" / kind).read_bytes() == data_of(name)
    written = (made / "tokenizer" / "special_ids.json").read_text()
    special = json.loads(written)
    assert written == json.dumps(special, indent=1) + "\n", (
        "other bytes need another version of the step"
    )
    for place in (made / "datasets").rglob("dataset.json"):
        manifest = read_manifest(place.parent)
        assert manifest.special_ids == special
        assert manifest.tokenizer.sha256 == report["tokenizer"]["sha256"]
        assert (place.parent / manifest.tokenizer.file).read_bytes() == data_of(name)
        assert manifest.vocab_size == report["tokenizer"]["vocab_size"] > 1000


def units(output: Path) -> tuple[Unit, ...]:
    commits = dict(Commits(LocalStorage(output)).all("ingest"))
    return units_of(commits[STEP_COMMIT].read(IngestRecord).units)


def test_the_token_store_holds_the_ids_of_the_library(name: str, made: Path) -> None:
    special = json.loads((made / "tokenizer" / "special_ids.json").read_text())
    unk = special.get("unk", -1)
    taken = set(RUNS[name].get("tokenizer", {}).get("special", {}).values()) & set(range(9999))
    checked = 0
    for unit in units(made):
        ingested = pq.read_table(made / unit.table, columns=["id", "text"]).to_pylist()
        whole = {row["id"]: row["text"] for row in ingested}
        store = TokenUnit.open(made / unit.tokens)
        table = pq.read_table(made / unit.tokens / "documents.parquet")
        for number, identity in enumerate(table.column("id").to_pylist()):
            ids = np.asarray(store.ids[slice(*store.places[number])]).tolist()
            assert ids[-1] == special["eos"]
            assert not set(ids[:-1]) & (set(special.values()) - {unk})
            expected = of_the_library(name, whole[identity])
            if not set(expected) & (taken | set(special.values()) - {unk}):
                assert ids[:-1] == expected
                checked += 1
    assert checked > 10


RETURNED = {"gpt2": {"text"}, "bert": {"encoded"}, "t5": {"encoded"}, "llama-model": {"text"}}


def test_the_verdict_says_how_documents_come_back(
    name: str, made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = report_of(made)
    for verdict in report["verify"].values():
        returned = verdict["returned"]
        assert verdict["by_library"] == report["documents"]["kept"], "there is little text"
        assert sum(returned.values()) == report["documents"]["kept"]
        assert RETURNED[name] <= returned.keys() <= RETURNED[name] | {"normalised", "text"}
    print_report(report, as_json=False)
    printed = " ".join(capsys.readouterr().out.split())
    said = {
        "text": "documents decode to their texts",
        "encoded": "are what encoding gives again (what they do not spell, the tokenizer loses)",
    }
    for way in RETURNED[name]:
        assert f"{returned[way]} {said[way]}" in printed
    lossy = name in ("bert", "t5")
    assert ("its normaliser changes" in printed) == lossy
    assert ("tokens are unknown" in printed) == lossy
    languages = {row["language"]: row for row in report["languages"]}
    assert (languages["two"].get("unknown", 0) >= 33) == lossy


def findings(output: Path, folder: Path, seed: int = 5) -> list[FoundIn]:
    space = Workspace(output, folder)
    commits = dict(Commits(LocalStorage(output)).all("split"))
    shards = commits[STEP_COMMIT].read(SplitRecord).shards
    work = decode.checks_of(units(output), shards, seed=seed, sentences=False)
    return [finding for _, unit in work for finding in decode.check_texts(space, unit).findings]


def test_changed_ids_are_found_whatever_the_tokenizer_loses(made: Path, tmp_path: Path) -> None:
    unit = units(made)[0]
    place = made / unit.tokens / "ids.npy"
    sound, ids = place.read_bytes(), np.load(place)
    assert findings(made, tmp_path) == []
    special = json.loads((made / "tokenizer" / "special_ids.json").read_text())
    number = TokenUnit.open(made / unit.tokens).places[0, 1] - 2
    try:
        for other in {int(ids[number]) + 1, special["eos"], special.get("unk", 0)} - {int(ids[number])}:
            changed = ids.copy()
            changed[number] = other
            np.save(place, changed)
            found = findings(made, tmp_path)
            assert [finding.check for finding in found] == ["text"], other
            assert "1 of " in found[0].message
            assert found[0].file == f"{unit.tokens}/ids.npy"
    finally:
        place.write_bytes(sound)


def test_a_finished_run_is_verified_again_without_the_file(
    name: str, made: Path, corpus: Path, tmp_path: Path
) -> None:
    del corpus
    if name != "gpt2":
        return
    report = verify_session(made, workers=0, address=None, stream=None)
    assert report["passed"]
    assert report["verify"]["clm"]["returned"] == report_of(made)["verify"]["clm"]["returned"]
    assert not list(tmp_path.iterdir())


@pytest.mark.campaign
def test_two_workers_give_the_same_bytes(
    corpus: Path, tmp_path: Path, ray_session: None, capfd: pytest.CaptureFixture[str]
) -> None:
    del ray_session
    file = run_file("gpt2")
    run_it(corpus, tmp_path / "none", file)
    run_it(corpus, tmp_path / "two", file, workers=2)
    found = [digests(tmp_path / each, "datasets", "tokens", "tokenizer") for each in ("none", "two")]
    assert found[0] == found[1]
    assert len(found[0]) > 20
    assert "parallelism" not in capfd.readouterr().err


def test_rows_that_eos_fills_are_shown_with_the_eos_of_their_documents(
    tmp_path: Path,
) -> None:
    """Every row of a few short texts is asked for."""
    rows_of = ({"text": text[: 40 + 20 * n], "lang": "one"} for n, text in enumerate(texts()[:10]))
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows_of))
    (tmp_path / "gpt2").mkdir()
    (tmp_path / "gpt2" / kind_of_file("gpt2")).write_bytes(data_of("gpt2"))
    run_it(tmp_path, tmp_path / "run", run_file("gpt2"), until="shard")
    rows = open_dataset(tmp_path / "run" / "datasets" / "clm", split="train", shuffle=False)
    assert rows.manifest.special_ids == {"eos": 0, "pad": 0}
    closed = 0
    for number in range(len(rows)):
        row = rows[number]
        filled = row["segment_ids"] >= 0
        assert (row["labels"][filled] == row["input_ids"][filled]).all()
        assert (row["labels"][~filled] == -100).all()
        (shown,) = inspect(tmp_path / "run", "clm", split="train", row=number, epoch=0)["sequences"]
        assert len(shown["tokens"]) == filled.sum()
        closed += sum(cell["piece"] == "<|endoftext|>" for cell in shown["tokens"])
    assert closed == rows.manifest.totals.documents > 6


def states(file: RunFile, corpus: Path, output: Path) -> dict[str, State]:
    found = plan_session(RunRequest(file, corpus, output, 0))
    return {status.step.name: status.state for status in found}


def test_the_plan_knows_the_file_by_its_bytes_and_the_roles_by_their_ids(
    corpus: Path, tmp_path: Path
) -> None:
    output, file = tmp_path / "run", run_file("bert", datasets=[{"name": "a"}])
    run_it(corpus, output, file, until="shard")
    (tmp_path / "elsewhere.json").write_bytes(data_of("bert"))
    by_id = {"path": str(tmp_path / "elsewhere.json"), "special": {"eos": 3, "bos": 2}}
    same = states(file.model_validate({**file.model_dump(), "tokenizer": by_id}), corpus, output)
    assert set(same.values()) == {State.DONE, State.NEW}
    content = json.loads(data_of("bert"))
    (tmp_path / "elsewhere.json").write_text(json.dumps(content, indent=3))
    for changed in (by_id, {"path": "bert/tokenizer.json", "special": {"eos": "[CLS]"}}):
        other = states(
            RunFile.model_validate({**file.model_dump(), "tokenizer": changed}), corpus, output
        )
        assert (other["dedup"], other["tokenizer"], other["tokenize"]) == (
            State.DONE,
            State.STALE,
            State.STALE,
        )


def test_another_tokenizer_takes_the_place_of_the_one_that_was(corpus: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    trained = run_file("gpt2", tokenizer={"train": {"vocab_size": 2000, "sample_size": "1MiB"}})
    for file, expected in (
        (trained, {"tokenizer.model", "special_ids.json", "fairness.json", "parity.json"}),
        (run_file("gpt2"), {"tokenizer.json", "special_ids.json", "parity.json"}),
        (trained, {"tokenizer.model", "special_ids.json", "fairness.json", "parity.json"}),
    ):
        run_it(corpus, output, file, until="scan", replace=True)
        (output / "tokenizer").mkdir(exist_ok=True)
        (output / "tokenizer" / "tokenizer.json").touch()  # as a kill would leave one
        run_it(corpus, output, file, until="tokenizer", replace=True)
        assert {path.name for path in (output / "tokenizer").iterdir()} == expected


def test_a_file_that_changes_meanwhile_is_not_taken(tmp_path: Path) -> None:
    place = tmp_path / "x.json"
    place.write_bytes(data_of("gpt2"))
    work = AdoptedTokenizer(place, "0" * 64, TokenizerKind.HUGGING_FACE, {"eos": 0}, 9, None)
    with pytest.raises(FormatError, match=r"x\.json: changed since the run was planned; run again"):
        adopt_tokenizer(Workspace(tmp_path, tmp_path / "task"), work)
    place.unlink()
    with pytest.raises(FormatError, match=r"x\.json: cannot be read: No such file"):
        adopt_tokenizer(Workspace(tmp_path, tmp_path / "task"), work)


def one(objective: dict[str, Any], **packing: Any) -> dict[str, Any]:
    """Return the sections of a run with one dataset."""
    return {
        "datasets": [{"name": "a", "objective": objective}],
        "packing": {"seq_len": 64, **packing},
    }


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        (
            "gpt2",
            {"tokenizer": {"path": "gone.json"}},
            r"path = 'gone\.json': no such file or folder in /",
        ),
        ("gpt2", {"tokenizer": {"path": "a.jsonl"}}, r"not a tokenizer\.json"),
        ("gpt2", {"tokenizer": {"path": "."}}, r"this folder has no tokenizer\.model"),
        ("bert", {"tokenizer": {"path": "bert/tokenizer.json"}}, "needs the special id 'eos'"),
        (
            "gpt2",
            {"tokenizer": {"path": "gpt2/tokenizer.json", "special": {"eos": "<eos>"}}},
            r"special\.eos = '<eos>': no such piece in tokenizer\.json; set apart from text are '<",
        ),
        ("gpt2", one({"kind": "mlm"}), r"dataset 'a': kind = 'mlm' needs the special id 'pad'"),
        (
            "gpt2",
            one({"kind": "simcse"})
            | {"tokenizer": {"path": "gpt2/tokenizer.json", "special": {"pad": "<|endoftext|>"}}},
            "needs 'eos' and 'pad' to be two ids, and both are 0",
        ),
        ("t5", one({"kind": "mlm"}), "needs the special id 'mask'"),
        ("t5", one({"kind": "ul2"}), "needs the special id 'mode_r'"),
        (
            "t5",
            one({"kind": "span_corruption", "mean_noise_span_length": 1.0}, seq_len=512),
            rf"dataset 'a': seq_len = 512: rows .* the tokenizer has {EXTRA} sentinels; lower it to",
        ),
        (
            "bert",
            one(CHARACTERS)
            | {
                "tokenizer": {
                    "path": "bert/tokenizer.json",
                    "special": {"eos": "[SEP]", "fim_prefix": 9, "fim_middle": 8, "fim_suffix": 7},
                }
            },
            r"objective\.level = 'character' .* tokenizer\.json cannot write every text as it is",
        ),
    ],
)
def test_what_could_not_be_made_is_refused_before_anything_is_written(
    name: str, changes: dict[str, Any], said: str, corpus: Path, tmp_path: Path
) -> None:
    file = run_file(name, **changes)
    for begin in (plan_session, lambda request: run_session(request, stream=None)):
        with pytest.raises((ConfigError, FormatError), match=said):
            begin(RunRequest(file, corpus, tmp_path / "run", 0))
    assert not (tmp_path / "run" / "commits").exists()


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"path": "x.json", "train": {"vocab_size": 4096}}, "a run trains a tokenizer or takes one"),
        ({"special": {"eos": "</s>"}}, "special names ids of an existing tokenizer; set path"),
        ({"path": "x.json", "special": {"eod": 3}}, "special.eod"),
    ],
)
def test_sections_that_contradict_themselves_are_refused(section: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        run_file("gpt2", tokenizer=section)
