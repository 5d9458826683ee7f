"""What growth promises of a folder: new files make a generation, and nothing that was there changes."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import shardmill
from pipeline.engine.tasks import Worker
from pipeline.planning.earlier import open_earlier
from pipeline.planning.plan import State
from pipeline.run_file.config import RunFile
from pipeline.session.request import generation_requests
from pipeline.session.session import RunRequest, decides_anew, plan_session, run_session
from pipeline.session.verifying import verify_session
from pipeline.steps.earlier import ORDER
from stages.errors import ConfigError, DataError, FormatError, Interrupted
from stages.loading.batches import Batches
from stages.loading.blend import Blend
from stages.loading.grown import GrownDataset
from stages.loading.split_reader import MAX_OPEN_SHARDS
from tests.conftest import bundled_lines
from tests.laws.tiny_run import tiny_run

pytestmark = pytest.mark.slow

VOLATILE = {
    "lock",
    "log.jsonl",
    "status.json",
    "metrics.prom",
    "report/report.json",
    "report/index.html",
}


def lines() -> list[bytes]:
    """Return bundled documents, each with a name of its own."""
    texts = [json.loads(line) for line in bundled_lines("text/*", 14)[:14]]
    texts += [json.loads(line) for line in bundled_lines("code/*", 20)[:20]]
    return [
        json.dumps({**one, "name": f"n{number}"}, ensure_ascii=False).encode()
        for number, one in enumerate(texts)
    ]


def renamed(line: bytes, name: str, *, added: str = "") -> bytes:
    """Return a document again, under another name."""
    document = json.loads(line)
    text = document["text"] + added
    return json.dumps({**document, "text": text, "name": name}, ensure_ascii=False).encode()


def grown_run(**changes: object) -> RunFile:
    """Return the run over all files of a folder."""
    source = {"name": "s", "paths": ["*.jsonl"], "language": {"column": "lang"}, "id_column": "name"}
    settings = {"sources": [source], "dedup": {}, "validation": {"fraction": 0.3}, **changes}
    return tiny_run(**settings)


def write(folder: Path, name: str, documents: list[bytes]) -> None:
    """Write one file of the input."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(b"\n".join([*documents, b""]))


def digests(folder: Path) -> dict[str, str]:
    """Return the digest of every file of a run but what each session writes of itself."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    named = ((path.relative_to(folder).as_posix(), path) for path in files)
    return {
        name: sha256(path.read_bytes()).hexdigest()
        for name, path in named
        if name not in VOLATILE and not name.startswith("generations/")
    }


def request_of(
    folder: Path, *, workers: int = 0, until: str | None = None, **changes: object
) -> RunRequest:
    """Return a call of `run`."""
    return RunRequest(grown_run(**changes), folder, folder / "run", workers=workers, until=until)


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run and two generations: new documents, repeats, near-duplicates of old ones."""
    folder = tmp_path_factory.mktemp("grown") / "input"
    known = lines()
    write(folder, "b.jsonl", [*known[:12], renamed(known[0], "again")])
    run_session(request_of(folder), stream=None)
    before = digests(folder / "run")
    near = [renamed(line, f"near{n}", added=" and more") for n, line in enumerate(known[:12])]
    write(
        folder, "a.jsonl", [*known[12:22], *near, renamed(known[3], "copy3"), renamed(known[0], "copy0")]
    )
    run_session(request_of(folder), stream=None)
    assert digests(folder / "run") == before
    first = digests(folder / "run" / "generations" / "0001")
    write(folder, "c.jsonl", [*known[22:], renamed(known[15], "copy15")])
    run_session(request_of(folder), stream=None)
    assert digests(folder / "run") == before
    assert digests(folder / "run" / "generations" / "0001") == first
    return folder


def removed_of(run: Path) -> dict[str, dict[str, object]]:
    """Return the removals of one generation by own id."""
    return {row["own_id"]: row for row in pq.read_table(run / "dedup/removed.parquet").to_pylist()}


def test_old_documents_outrank_and_are_named_with_their_run(grown: Path) -> None:
    run = grown / "run"
    steps = json.loads((run / "run.json").read_text())["steps"]
    first, second = (removed_of(run / "generations" / name) for name in ("0001", "0002"))
    assert {f"near{n}" for n in range(12)} & first.keys(), "near-duplicates of old documents go"
    assert first["copy3"]["kept_own_id"] == "n3"
    assert first["copy0"]["kept_own_id"] == "n0"
    assert {row["kept_run"] for row in first.values()} <= {steps["dedup"]["fingerprint"], None}
    assert first["copy3"]["kept_run"] == steps["dedup"]["fingerprint"]
    of_first = json.loads((run / "generations/0001/run.json").read_text())["steps"]["dedup"][
        "fingerprint"
    ]
    assert second["copy15"]["kept_own_id"] == "n15"
    assert second["copy15"]["kept_run"] == of_first


def test_a_generation_has_the_tokenizer_of_the_first_and_a_seed_of_its_own(grown: Path) -> None:
    run = grown / "run"
    folders = [run, *sorted((run / "generations").iterdir())]
    assert len({(one / "tokenizer/tokenizer.model").read_bytes() for one in folders}) == 1
    assert len({(one / "tokenizer/special_ids.json").read_bytes() for one in folders}) == 1
    assert len({json.loads((one / "run.json").read_text())["run"]["seed"] for one in folders}) == 3


@pytest.mark.parametrize("call", [plan_session, lambda request: run_session(request, stream=None)])
def test_a_source_under_another_name_is_asked_about_and_nothing_changes(
    call: Callable[[RunRequest], object], grown: Path
) -> None:
    run, before = grown / "run", digests(grown / "run")
    source = {"name": "t", "paths": ["*.jsonl"], "language": {"column": "lang"}, "id_column": "name"}
    with pytest.raises(
        ConfigError, match=r"was s renamed to t\? .*write name = 's' again, or use --replace"
    ):
        call(request_of(grown, sources=[source]))
    assert digests(run) == before


def sides_of(run: Path) -> dict[str, str]:
    """Return the split of every document of one generation by its id."""
    found = {}
    for split in ("train", "validation"):
        for table in (run / "datasets/mlm" / split).rglob("documents.parquet"):
            for name in pq.read_table(table, columns=["id"]).column("id").to_pylist():
                found[name] = split
    return found


def chains(count: int) -> tuple[list[bytes], list[bytes]]:
    """Return old documents in near-pairs, and new ones like the second of a pair, but not the first."""
    old, new = [], []
    for number in range(count):
        words = [f"w{number}x{place}" for place in range(236)]
        first, second = words[18:218], words[36:236]
        third = [f"other{number}x{place}" for place in range(18)] + words[54:236]
        texts = [" ".join(text) for text in (first, second, third)]
        records = [
            json.dumps({"text": text, "lang": "en", "name": f"{number}-{place}"}).encode()
            for place, text in enumerate(texts)
        ]
        old += records[:2]
        new.append(records[2])
    return old, new


def test_new_documents_stay_on_the_side_of_their_clusters(tmp_path: Path) -> None:
    folder = tmp_path / "input"
    old, new = chains(40)
    write(folder, "a.jsonl", [*old, *lines()])
    run_session(request_of(folder), stream=None)
    write(folder, "b.jsonl", new)
    run_session(request_of(folder), stream=None)
    own = folder / "run"
    before, after = sides_of(own), sides_of(own / "generations/0001")
    clusters = pq.read_table(own / "generations/0001/dedup/clusters.parquet").to_pylist()
    stayed = [row for row in clusters if row["kept"] and row["cluster"] in before]
    for row in stayed:
        assert after[row["id"]] == before[row["cluster"]]
    sides = [before[row["cluster"]] for row in stayed]
    assert sides.count("validation") >= 3, "clusters that were held out go on"
    assert sides.count("train") >= 3


def test_a_trainer_sees_all_rows_or_those_of_the_first_generations(grown: Path) -> None:
    path = grown / "run/datasets/mlm"
    parts = [shardmill.open_dataset(path, generations=1, shuffle=False)]
    for name in ("0001", "0002"):
        own = grown / "run/generations" / name / "datasets/mlm"
        parts.append(shardmill.open_dataset(own, shuffle=False))
    whole = shardmill.open_dataset(path, shuffle=False)
    assert len(whole) == sum(map(len, parts)) > len(parts[0])
    rows = whole.batch(np.arange(len(whole)))
    for name, column in rows.items():
        joined = np.concatenate([part.batch(np.arange(len(part)))[name] for part in parts])
        assert np.array_equal(column, joined), name
    shuffled = shardmill.open_dataset(path)
    taken = shuffled.batch(np.arange(len(shuffled)))["input_ids"]
    assert len(taken) == len(whole)
    two = shardmill.open_dataset(path, generations=2)
    assert len(two) == len(parts[0]) + len(parts[1])
    state = Batches(two, 2).state_dict()
    with pytest.raises(ConfigError, match="generations=N"):
        Batches(shuffled, 2).load_state_dict(state)
    Batches(shardmill.open_dataset(path, generations=2), 2).load_state_dict(state)
    with pytest.raises(ConfigError, match="has 3"):
        shardmill.open_dataset(path, generations=4)


@pytest.mark.parametrize("generation", ["", "generations/0001"])
def test_rows_that_are_missing_before_others_are_not_passed_over(grown: Path, generation: str) -> None:
    manifest = grown / "run" / generation / "datasets/mlm/train/dataset.json"
    away = manifest.rename(manifest.with_suffix(".away"))
    try:
        with pytest.raises(FormatError, match=r"no dataset.json"):
            shardmill.open_dataset(grown / "run/datasets/mlm")
    finally:
        away.rename(manifest)


def test_files_are_mapped_as_many_times_fewer_as_there_are_parts(grown: Path) -> None:
    rows = shardmill.open_dataset(grown / "run/datasets/mlm")
    assert isinstance(rows, GrownDataset)
    Blend([rows, rows], [1, 1])
    bounds = [part.reader._mapped.bound for part in rows.parts]  # noqa: SLF001
    assert bounds == [MAX_OPEN_SHARDS // 6] * 3


def test_verify_checks_every_generation(grown: Path) -> None:
    report = verify_session(grown / "run", workers=0, address=None, stream=None)
    assert report["passed"]
    assert list(report["generations"]) == ["0001", "0002"]
    assert all(one["passed"] for one in report["generations"].values())


def test_plan_says_what_is_new(grown: Path) -> None:
    steps = plan_session(request_of(grown))
    assert {step.state for step in steps} == {State.DONE}
    assert {step.step.name.split("/")[0] for step in steps} >= {"ingest", "generations"}
    with pytest.raises(ConfigError, match="holds a run of another config"):
        run_session(request_of(grown, seed=9), stream=None)


def test_a_generation_that_was_stopped_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [tmp_path / name / "input" for name in ("whole", "stopped")]
    known, real = lines(), Worker.run
    for folder in folders:
        folder.parent.mkdir()
        write(folder, "a.jsonl", known[:12])
        run_session(request_of(folder), stream=None)
        write(folder, "b.jsonl", known[8:20])
    run_session(request_of(folders[0]), stream=None)
    stops = 0
    for after in range(3, 40, 6):
        done = 0

        def stop(self: Worker, task: object, after: int = after) -> object:
            nonlocal done
            done += 1
            if done > after:
                raise KeyboardInterrupt
            return real(self, task)  # type: ignore[arg-type]

        with monkeypatch.context() as patched:
            patched.setattr(Worker, "run", stop)
            try:
                run_session(request_of(folders[1]), stream=None)
            except Interrupted:
                stops += 1
    run_session(request_of(folders[1]), stream=None)
    assert stops >= 2
    own, other = (digests(folder / "run/generations/0001") for folder in folders)
    made = {
        name: digest for name, digest in own.items() if not name.startswith(("commits/scan", "scan/"))
    }
    assert made == {name: other[name] for name in made}


def test_replace_makes_one_run_of_all_files(tmp_path: Path) -> None:
    folder, known = tmp_path / "input", lines()
    write(folder, "a.jsonl", known[:12])
    run_session(request_of(folder), stream=None)
    write(folder, "b.jsonl", known[8:20])
    run_session(request_of(folder), stream=None)
    assert (folder / "run/generations/0001").is_dir()
    write(folder, "c.jsonl", known[20:])
    report = run_session(replace(request_of(folder), replace=True), stream=None)
    assert not (folder / "run/generations").exists()
    assert report["documents"]["read"] == 12 + 12 + len(known) - 20


def test_an_old_file_that_changed_is_refused(tmp_path: Path) -> None:
    folder, known = tmp_path / "input", lines()
    write(folder, "a.jsonl", known[:12])
    run_session(request_of(folder), stream=None)
    write(folder, "a.jsonl", known[:11])
    write(folder, "b.jsonl", known[12:])
    with pytest.raises(ConfigError, match=r"--replace .* dedup.against"):
        run_session(request_of(folder), stream=None)
    assert not (folder / "run/generations").exists()


def test_a_begun_generation_whose_file_is_gone_says_how_to_begin_anew(tmp_path: Path) -> None:
    folder, known = tmp_path / "input", lines()
    write(folder, "a.jsonl", known[:12])
    run_session(request_of(folder), stream=None)
    write(folder, "b.jsonl", [b'{"text": "short", "name": "q", "lang": "en"}'])
    with pytest.raises(DataError, match="no document is left"):
        run_session(request_of(folder), stream=None)
    (folder / "b.jsonl").unlink()
    write(folder, "c.jsonl", known[12:24])
    with pytest.raises(ConfigError, match=r"generations/0001: .* delete its folder and run again"):
        run_session(request_of(folder), stream=None)
    shutil.rmtree(folder / "run/generations/0001")
    assert run_session(request_of(folder), stream=None)["passed"]


def test_a_finished_run_stands_when_what_it_was_made_against_is_gone(tmp_path: Path) -> None:
    old, new, known = tmp_path / "old", tmp_path / "new", lines()
    write(old, "a.jsonl", known[:14])
    run_session(request_of(old), stream=None)
    write(new, "b.jsonl", known[6:24])
    request = request_of(new, dedup={"against": ["../old/run"]})
    run_session(request, stream=None)
    before = digests(new / "run")
    (old / "run").rename(tmp_path / "away")
    run_session(request, stream=None)
    assert verify_session(new / "run", workers=0, address=None, stream=None)["passed"]
    aside = ("verify", "run.json", "commits/decode")  # these say which earlier runs are there
    assert {n: d for n, d in digests(new / "run").items() if not any(one in n for one in aside)} == {
        name: digest for name, digest in before.items() if not any(one in name for one in aside)
    }
    with pytest.raises(ConfigError, match="holds no run"):
        run_session(replace(request, output=new / "other"), stream=None)


def test_replace_makes_one_run_only_where_documents_are_decided_anew(grown: Path) -> None:
    other_texts = request_of(grown, ingest={"min_chars": 30})
    other_rows = request_of(grown, packing={"seq_len": 32, "shards": 2})
    for request, anew in ((other_texts, True), (other_rows, False)):
        own, *later = generation_requests(request)
        assert len(later) == 2
        assert decides_anew(own) is anew


def test_a_stray_file_of_ranks_says_nothing_of_an_earlier_run(grown: Path) -> None:
    stray = grown / "run" / ORDER
    stray.write_bytes(b"")
    try:
        assert not open_earlier(grown / "run", grown_run(), label="run").ranked
    finally:
        stray.unlink()


def test_signatures_of_normalised_texts_are_compared_and_refused_likewise(tmp_path: Path) -> None:
    old, new, known = tmp_path / "old", tmp_path / "new", lines()
    normal: dict[str, object] = {"minhash": {"normalize": ["case"]}}
    write(old, "a.jsonl", known[:14])
    run_session(request_of(old, dedup=normal, until="dedup"), stream=None)
    write(new, "b.jsonl", [renamed(known[3], "again"), *known[14:16]])
    against = {"against": ["../old/run"]}
    with pytest.raises(
        ConfigError, match=r"normalize is \['case', 'Unicode [\d.]+'\] there and \[\] here"
    ):
        run_session(request_of(new, dedup=against), stream=None)
    run_session(request_of(new, dedup={**against, **normal}, until="dedup"), stream=None)
    removed = pq.read_table(new / "run/dedup/removed.parquet").to_pylist()
    assert [(row["own_id"], row["kept_own_id"]) for row in removed] == [("again", "n3")]


def test_signatures_of_other_settings_are_refused(tmp_path: Path) -> None:
    old, new, known = tmp_path / "old", tmp_path / "new", lines()
    write(old, "a.jsonl", known[:14])
    run_session(request_of(old, until="dedup"), stream=None)
    write(new, "b.jsonl", known[6:24])
    dedup = {"against": ["../old/run"], "minhash": {"size": 3}}
    with pytest.raises(ConfigError, match=r"dedup.minhash.size is 5 there and 3 here"):
        run_session(request_of(new, dedup=dedup), stream=None)
