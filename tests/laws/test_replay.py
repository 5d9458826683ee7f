"""What a replay promises: another run's training documents, with the ids they have, and nothing else.

The earlier run is the tiny run, whose validation holds some of its documents out; the new one is made of
code, of two documents of the earlier run under other names, and of a replay of it.
"""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipeline.planning.plan import State
from pipeline.run_file.config import RunFile
from pipeline.session.request import RunRequest
from pipeline.session.session import plan_session, run_session
from pipeline.session.verifying import verify_session
from stages.errors import ConfigError, DataError
from stages.store.token_store import TokenUnit
from tests.conftest import bundled_lines, digests
from tests.laws.test_loss_on_turns import DATASETS, losses
from tests.laws.tiny_run import tiny_run, write_tiny_corpus
from tests.stages.chat.chat_files import chat_run, chat_tokenizer, dialogues, write_lines

pytestmark = pytest.mark.slow

MADE = ("replay", "mix", "datasets", "tokens", "ledger")
GENERAL = {"name": "general", "run": "old/run", "share": 0.4, "max_epochs": 8}
TURNS = DATASETS[:1]
CLM = [{"name": "clm", "objective": {"kind": "clm"}}]


def new_run(**changes: object) -> RunFile:
    """Return a run over code and a replay."""
    own = {"name": "code", "paths": ["*.jsonl"], "language": {"column": "lang"}}
    settings = {
        "sources": [own, GENERAL],
        "seed": 4,
        "tokenizer": {"path": "old/run"},
        "packing": {"seq_len": 64, "shards": 3},
        "datasets": CLM,
        **changes,
    }
    return tiny_run(**settings)


def request(folder: Path, output: str, *, until: str | None = None, **changes: object) -> RunRequest:
    """Return a call over a folder of the new run."""
    return RunRequest(new_run(**changes), folder, folder / output, 0, until=until)


def kept_line(old: Path) -> bytes:
    """Return a line of the input whose document the earlier run trains on."""
    store = next((old / "run/tokens").glob("*/*"))
    unit = TokenUnit.open(store)
    trained = unit.documents(0).column("position").to_pylist()
    with (old / "a.jsonl").open("rb") as file:
        file.seek(trained[0])
        return file.readline().rstrip(b"\n")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an earlier run, and the files and the output of a new one."""
    folder = tmp_path_factory.mktemp("replay")
    write_tiny_corpus(folder / "old")
    run_session(RunRequest(tiny_run(), folder / "old", folder / "old/run", 0), stream=None)
    lines = [*bundled_lines("code/*", 12)[:12], kept_line(folder / "old")]
    (folder / "b.jsonl").write_bytes(b"\n".join([*lines, b""]))
    run_session(request(folder, "run"), stream=None)
    return folder


def documents_of(folder: Path) -> dict[bytes, tuple[list[int], bool, dict[str, object]]]:
    """Return the ids of every stored document of a run, whether it is trained on, and its row."""
    found = {}
    shards = json.loads((folder / "commits/split/_step.json").read_text())["record"]["shards"]["train"]
    for place in sorted((folder / "tokens").glob("*/*")):
        unit = TokenUnit.open(place)
        rows = pq.read_table(place / "documents.parquet").to_pylist()
        for number, row in enumerate(rows):
            ids = np.asarray(unit.ids[slice(*unit.places[number])]).tolist()
            found[row["id"]] = ids, number < unit.group_ptr[shards], row
    return found


def test_replayed_documents_have_the_ids_of_the_earlier_run_and_no_held_out_one_is_among_them(
    base: Path,
) -> None:
    stored = documents_of(base / "old/run")
    trained = {name for name, (_, trains, _) in stored.items() if trains}
    assert trained < stored.keys(), "some are held out"
    seen: set[bytes] = set()
    for shard in sorted((base / "run/datasets/clm/train/epoch-0000").iterdir()):
        rows = np.load(shard / "input_ids.npy")
        segments = {path.stem: np.load(path) for path in (shard / "segments").glob("*.npy")}
        row = np.repeat(np.arange(len(rows)), np.diff(segments["row_ptr"]))
        listed = pq.read_table(shard / "documents.parquet").to_pylist()
        for number, document in enumerate(listed):
            if document["source"] != "general":
                continue
            own = np.flatnonzero(segments["doc"] == number)
            own = own[np.argsort(segments["doc_offset"][own])]
            ids = [
                token
                for one in own.tolist()
                for token in rows[row[one], segments["start"][one] :][: segments["length"][one]].tolist()
            ]
            name = bytes.fromhex(document["id"])
            wanted, trains, described = stored[name]
            assert trains
            assert ids == wanted
            assert document["path"] == described["path"]
            assert document["position"] == described["position"]
            seen.add(name)
    assert seen == trained
    assert not any("general" in path.read_text() for path in base.glob("run/datasets/clm/val*/*.json"))


def test_the_share_is_met_and_a_document_of_the_earlier_run_that_comes_again_is_removed(
    base: Path,
) -> None:
    tokens: dict[str, int] = {}
    for table in sorted((base / "run/datasets/clm/train").rglob("documents.parquet")):
        for row in pq.read_table(table, columns=["source", "tokens"]).to_pylist():
            tokens[row["source"]] = tokens.get(row["source"], 0) + row["tokens"]
    assert tokens["general"] / sum(tokens.values()) == pytest.approx(0.4, abs=0.02)
    removed = pq.read_table(base / "run/dedup/removed.parquet").to_pylist()
    assert [(row["kept_source"], row["method"]) for row in removed] == [("s", "exact")]


def test_a_run_that_stops_on_the_way_goes_on_to_the_same_bytes(base: Path) -> None:
    for until in ("tokenize", "replay", "mix"):
        run_session(request(base, "again", until=until), stream=None)
    run_session(request(base, "again", until="shard"), stream=None)
    assert digests(base / "again", *MADE) == digests(base / "run", *MADE)


def test_plan_says_what_is_replayed_and_what_is_compared(base: Path) -> None:
    steps = {one.step.name: one for one in plan_session(request(base, "nowhere"))}
    assert steps["replay"].why == "general: old/run"
    assert steps["dedup"].why == "against old/run"
    assert "replay" in steps["shard-clm"].step.inputs
    done = {one.step.name: one.state for one in plan_session(request(base, "run"))}
    assert set(done.values()) == {State.DONE}


def changed_copy(base: Path, tmp_path: Path) -> Path:
    """Return a copy of everything that may be damaged."""
    return Path(shutil.copytree(base, tmp_path / "copy"))


def flip(path: Path, place: int = -1) -> None:
    """Change a byte of a file."""
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def test_a_changed_byte_of_the_earlier_ids_is_refused_by_name_and_found_by_verify(
    base: Path, tmp_path: Path
) -> None:
    folder = changed_copy(base, tmp_path)
    ids = next((folder / "old/run/tokens").glob("*/*/ids.npy"))
    flip(ids)
    for until in (None, "replay"):
        with pytest.raises(DataError, match=r"sources.general.run: old/run: .*ids.npy: .*--replace"):
            run_session(request(folder, "new", until=until), stream=None)
    run_session(request(folder, "run"), stream=None)  # is done and reads nothing
    report = verify_session(folder / "run", workers=0, address=None, stream=None)
    assert report["audit"] is not None
    assert any(found["file"] == str(ids) for found in report["audit"]["findings"])
    ids.unlink()
    with pytest.raises(DataError, match=r"ids.npy"):
        run_session(request(folder, "new"), stream=None)


def test_a_changed_index_is_found_though_its_digest_is_right(base: Path, tmp_path: Path) -> None:
    folder = changed_copy(base, tmp_path)
    shutil.move(folder / "old", tmp_path / "old")
    (folder / "old").symlink_to(tmp_path / "old")
    places = next((folder / "run/replay").rglob("places.npy"))
    array = np.load(places)
    array[0, 1] -= 1
    np.save(places, array)
    report = verify_session(folder / "run", workers=0, address=None, stream=None)
    assert report["audit"] is not None
    found = {(one["check"], Path(one["file"]).name) for one in report["audit"]["findings"]}
    assert ("ids", "places.npy") in found
    places_found = {Path(one["file"]).parts[0] for one in report["audit"]["findings"]}
    assert places_found == {"replay"}, "nothing is wrong with a folder that is reached through a link"


def test_the_earlier_run_is_needed_to_verify_and_may_be_gone_once_all_is_done(
    base: Path, tmp_path: Path
) -> None:
    folder = changed_copy(base, tmp_path)
    shutil.move(folder / "old", tmp_path / "elsewhere")
    for name in ("run", "run"):
        (folder / "tokenizer").mkdir(exist_ok=True)
        file = request(folder, name, tokenizer={"path": "run"})
        run_session(file, stream=None)
    with pytest.raises(ConfigError, match=r"sources.general.run: .* gone"):
        verify_session(folder / "run", workers=0, address=None, stream=None)
    with pytest.raises(ConfigError, match=r"holds no run; name the folder of a finished one"):
        run_session(request(folder, "new", tokenizer={"path": "run"}), stream=None)


def test_an_earlier_run_that_grows_later_changes_nothing_and_a_new_run_replays_its_generations(
    base: Path, tmp_path: Path
) -> None:
    folder = changed_copy(base, tmp_path)
    (folder / "old/c.jsonl").write_bytes(b"\n".join([*bundled_lines("code/*", 30)[20:30], b""]))
    run_session(RunRequest(tiny_run(), folder / "old", folder / "old/run", 0), stream=None)
    before = digests(folder / "run", *MADE)
    run_session(request(folder, "run"), stream=None)
    assert digests(folder / "run", *MADE) == before
    run_session(request(folder, "new", until="replay"), stream=None)
    units = sorted(path.parent.name for path in (folder / "new/replay/general").glob("*/s"))
    assert units == ["0000", "0001"]


def test_a_generation_of_a_replaying_run_replays_a_share_again_and_no_epochs(
    base: Path, tmp_path: Path
) -> None:
    folder = changed_copy(base, tmp_path)
    changes = replaying(share=None)
    amounts = {
        "plain": {},
        "share": {"share": 0.4, "max_epochs": 8},
        "little": {"share": 0.1},
        "epochs": {"epochs": 1},
    }
    changes["datasets"] = [
        {"name": name, "mix": {"sources": {"general": one}, "tolerance": 0.05}}
        if one
        else {"name": name}
        for name, one in amounts.items()
    ]
    asked = RunRequest(new_run(**changes), folder, folder / "grown", 0)
    run_session(asked, stream=None)
    (folder / "c.jsonl").write_bytes(b"\n".join([*bundled_lines("code/*", 40)[20:40], b""]))
    report = run_session(asked, stream=None)
    assert report["passed"]
    assert [one["passed"] for one in report["generations"].values()] == [True]
    shares = {}
    for name in amounts:
        rows = pq.read_table(folder / f"grown/generations/0001/mix/{name}.parquet").to_pylist()
        general = sum(row["tokens"] for row in rows if row["source"] == "general")
        shares[name] = general / sum(row["tokens"] for row in rows)
    assert shares == {
        "plain": 0,
        "share": pytest.approx(0.4, abs=0.1),
        "little": pytest.approx(0.1, abs=0.05),
        "epochs": 0,
    }


def other_tokenizer(folder: Path) -> dict[str, object]:
    """Return settings that name another tokenizer."""
    file = next((folder / "old/run/tokenizer").glob("*.model"))
    (folder / "other.model").write_bytes(file.read_bytes() + b"\x22\x00")
    return {"tokenizer": {"path": "other.model"}}


def same_file(folder: Path) -> dict[str, object]:
    """Return settings that name a file as the earlier run does."""
    (folder / "again").mkdir(exist_ok=True)
    shutil.copy(folder / "old/a.jsonl", folder / "again/a.jsonl")
    return {"sources": [{"name": "s", "paths": ["again/*.jsonl"]}, GENERAL]}


def unfinished(folder: Path) -> dict[str, object]:
    """Return settings that name a run that stopped."""
    run_session(
        RunRequest(tiny_run(), folder / "old", folder / "old/half", 0, until="dedup"), stream=None
    )
    return replaying(run="old/half")


def replaying(**changes: object) -> dict[str, object]:
    """Return settings that replay with other settings."""
    own = {"name": "code", "paths": ["*.jsonl"]}
    return {"sources": [own, {**GENERAL, **changes}]}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (other_tokenizer, r"has another tokenizer .*\[tokenizer\] path = 'old/run'"),
        (lambda _: {"framing": {"preset": "llama"}}, "framed otherwise .* begin is not there there and"),
        (same_file, "s/a.jsonl .*would have the same ids; give the source another name"),
        (unfinished, "step split of that run is not done; finish that run first"),
        (lambda _: replaying(run="nowhere"), "nowhere holds no run; name the folder of a finished"),
        (lambda _: replaying(run="new"), "is the run's own folder; name another run"),
        (lambda _: replaying(run="hf://datasets/me/run"), "is a URL"),
        (lambda _: replaying(weight_column="score"), "no field that goes along .* it has none"),
    ],
)
def test_what_does_not_fit_is_refused_as_the_run_is_planned(
    base: Path, settings: object, message: str
) -> None:
    assert callable(settings)
    asked = request(base, "new")
    file = new_run(**settings(base))
    with pytest.raises(ConfigError, match=message):
        plan_session(replace(asked, file=file))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokenizer": {}}, r"this run trains one; write \[tokenizer\] path = 'old/run'"),
        ({"sources": [GENERAL]}, "no source has files"),
        ({"sources": [{"name": "code"}, GENERAL]}, "paths is missing"),
        ({"sources": [{**GENERAL, "paths": ["*"]}]}, "paths and run are both given"),
        ({"sources": [{**GENERAL, "text_column": "body"}]}, "text_column is about files"),
        ({"sources": [{**GENERAL, "run": " "}]}, "names no folder"),
        ({"datasets": [{"name": "x", "objective": {"kind": "nsp"}}]}, "needs the ends of sentences"),
    ],
)
def test_what_cannot_be_replayed_is_refused_by_the_run_file(
    changes: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        new_run(**changes)


def test_dialogues_and_columns_that_go_along_are_replayed_with_what_is_learned_of_them(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.jsonl").write_bytes(write_lines(list(dialogues(40))))
    (tmp_path / "tokenizer.json").write_bytes(chat_tokenizer())
    texts = {"name": "texts", "paths": ["texts.jsonl"], "id_column": "id", "keep_columns": ["lang"]}
    (tmp_path / "texts.jsonl").write_bytes(b"\n".join(bundled_lines("text/*", 3)) + b"\n")
    (tmp_path / "own.jsonl").write_bytes(write_lines(list(dialogues(60))[40:]))
    old = chat_run("chatml", datasets=TURNS)
    old["sources"].append(texts)
    earlier = RunRequest(RunFile.model_validate(old), tmp_path, tmp_path / "old", 0)
    run_session(earlier, stream=None)
    new = chat_run("chatml", datasets=TURNS, seed=8)
    new["sources"][0] |= {"name": "mine", "paths": ["own.jsonl"]}
    new["sources"].append({"name": "general", "run": "old", "weight_column": "lang"})
    with pytest.raises(
        ConfigError, match=r"with all documents of that run .*; its sources .* do not have"
    ):
        run_session(RunRequest(RunFile.model_validate(new), tmp_path, tmp_path / "new", 0), stream=None)
    new["sources"][-1]["weight_column"] = None
    report = run_session(
        RunRequest(RunFile.model_validate(new), tmp_path, tmp_path / "new", 0), stream=None
    )
    assert report["passed"]
    found = {
        name: labels
        for (source, name), labels in losses(tmp_path / "new", "turns", "train").items()
        if source == "general"
    }
    wanted = {name: labels for (_, name), labels in losses(tmp_path / "old", "turns", "train").items()}
    assert found == wanted
    assert any(map(any, found.values()))
    tables = [pq.read_table(one) for one in (tmp_path / "new/datasets/turns/train").rglob("*.parquet")]
    assert {lang for table in tables for lang in table.column("record.lang").to_pylist()} - {None}
