"""What `shardmill quick` promises.

Tokenized files in one call, the ids those of the tokenizer's library; the same command goes on wherever
it was stopped and ends in the same bytes, and does nothing when all is done; what cannot end is refused
first.
"""

import contextlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import tokenizers
from tokenizers import models, pre_tokenizers

from pipeline.run_file.config import RunFile
from pipeline.session import session
from pipeline.session.request import RunRequest
from pipeline.state.commits import Commits
from pipeline.tools.export import folder as export_parts
from pipeline.tools.export.folder import record_part
from pipeline.tools.export.quick import quick_export, quick_run_file
from pipeline.tools.export.terminal import print_quick
from stages.errors import ConfigError, DataError, FormatError, VerificationError
from stages.export.table import FORMATS
from tests.called import called
from tests.material.commit_seals import vouched
from tests.stages.tokenizer.existing_files import data_of, texts
from tests.stages.tokenizer.test_pieces import SAMPLE

pytestmark = pytest.mark.slow

WRITTEN = "a text that says <|endoftext|> and </s>"


def write_inputs(folder: Path) -> None:
    """Write two files of texts and two tokenizers."""
    every = [*texts(), WRITTEN]
    rows = [json.dumps({"text": text, "body": text.upper()}) + "\n" for text in every]
    (folder / "texts").mkdir()
    (folder / "texts" / "a.jsonl").write_text("".join(rows[:5]))
    (folder / "texts" / "b.jsonl").write_text("".join(rows[5:]))
    (folder / "gpt2.json").write_bytes(data_of("gpt2"))
    (folder / "bert.json").write_bytes(data_of("bert"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """These files, in the current folder."""
    write_inputs(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_file(
    paths: Sequence[str] = ("texts/*.jsonl",), tokenizer: Path = Path("gpt2.json"), **changes: Any
) -> RunFile:
    """Return the run file of what most tests ask for."""
    return quick_run_file(paths, tokenizer, **{"validation": 0.3, **changes})


def quick(
    to: Path = Path("out"),
    format: str = "nanogpt",  # noqa: A002  # as the command has it
    *,
    work: Path | None = None,
    replace: bool = False,
    **changes: Any,
) -> Any:
    """Do what most tests ask for."""
    return quick_export(run_file(**changes), to, format=format, work=work, replace=replace)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """These files and what the call makes of them, and what it says; the run up to its shards, too."""
    place = tmp_path_factory.mktemp("made")
    write_inputs(place)
    with contextlib.chdir(place):
        run = RunRequest(run_file(), place, place / "out.work", 0, until="shard")
        session.run_session(run, stream=None)
        shutil.copytree(place / "out.work", place / "unchecked")
        return place, quick()


@pytest.fixture
def there(made: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch) -> Path:
    """That folder, as the current one; what was made stays as it is."""
    monkeypatch.chdir(made[0])
    return made[0]


@pytest.fixture
def finished(made: tuple[Path, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that, in the current folder."""
    shutil.copytree(made[0], tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def documents(*places: Path) -> list[tuple[int, ...]]:
    """Return the documents of nanoGPT's files, sorted: what stands before each EOS, which is id 0."""
    found = []
    for place in places:
        ids = np.fromfile(place, "<u2")
        ends = np.flatnonzero(ids == 0)
        assert ends[-1] == len(ids) - 1
        found += [tuple(part[:-1].tolist()) for part in np.split(ids, ends + 1)[:-1]]
    return sorted(found)


def test_files_hold_the_ids_of_the_library_and_every_document_once(made: tuple[Path, Any]) -> None:
    folder, report = made
    library = tokenizers.Tokenizer.from_str(data_of("gpt2").decode())
    expected = [tuple(library.encode(text).ids) for text in texts()]
    pieces = [*library.encode("a text that says <|endoft").ids]
    found = documents(folder / "out" / "train.bin", folder / "out" / "val.bin")
    assert len(found) == len(texts()) + 1
    assert set(expected) <= set(found)
    (written,) = set(found) - set(expected)
    assert list(written)[: len(pieces) - 3] == pieces[:-3], "the piece that is written out is text"
    assert report["run"]["documents"]["removed"] == {"exact": 0, "minhash": 0}
    assert report["run"]["verify"]["documents"]["learning"] is None
    assert report["work"] == "out.work"
    assert contents(folder / "out")["tokenizer.json"] == data_of("gpt2")


def test_texts_of_another_field_are_read_and_those_that_stand_twice_stay_both(folder: Path) -> None:
    (folder / "texts" / "c.jsonl").write_bytes((folder / "texts" / "a.jsonl").read_bytes())
    report = quick(validation=0.0, text_column="body")
    assert report["run"]["documents"]["kept"] == len(texts()) + 6
    assert list(report["export"]["splits"]) == ["train"]
    library = tokenizers.Tokenizer.from_str(data_of("gpt2").decode())
    found = documents(folder / "out" / "train.bin")
    assert len(found) == len(texts()) + 6
    assert found.count(tuple(library.encode(texts()[0].upper()).ids)) == 2


def test_a_second_call_does_nothing(
    there: Path, made: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    first: Any = {**made[1]["export"]}
    ignored = {"log.jsonl", "status.json", "metrics.prom", "report", "verify", "run.json", "lock"}

    def times() -> dict[Path, int]:
        return {
            path: path.stat().st_mtime_ns
            for place in (there / "out", there / "out.work")
            for path in place.rglob("*")
            if path.is_file() and not ignored & set(path.relative_to(place).parts)
        }

    before = times()
    second = quick()
    assert len(before) > 40
    assert times() == before
    assert (first.pop("already"), second["export"].pop("already")) == (False, True)
    assert first == second["export"]
    monkeypatch.chdir(there / "out")
    with pytest.raises(ConfigError, match="has no name of its own"):
        quick(to=Path())


class Killed(BaseException):
    """Stands for the end of the process: nothing catches it."""


def test_a_call_killed_anywhere_goes_on_and_ends_in_the_same_bytes(
    folder: Path, made: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is killed again and again: after so many commits more, and once a part is exported."""
    put = Commits.put
    for last in (0, 3, 7):
        with monkeypatch.context() as patch:
            done = 0

            def put_or_die(self: Commits, *arguments: Any, last: int = last, **options: Any) -> Any:
                nonlocal done
                if done == last:
                    raise Killed
                done += 1
                return put(self, *arguments, **options)

            patch.setattr(Commits, "put", put_or_die)
            with pytest.raises(Killed):
                quick()
        assert done == last
        assert not (folder / "out").exists()
    with monkeypatch.context() as patch:

        def keep_and_die(place: Path, part: Any) -> None:
            record_part(place, part)
            raise Killed

        patch.setattr(export_parts, "record_part", keep_and_die)
        with pytest.raises(Killed):
            quick()
    quick()
    assert contents(folder / "out") == contents(made[0] / "out")


def test_another_format_is_made_of_the_same_run(there: Path) -> None:
    since = (there / "out.work" / "log.jsonl").stat().st_size
    report = quick(format="megatron", to=Path("megatron"), work=Path("out.work"))
    log = (there / "out.work" / "log.jsonl").read_bytes()[since:].splitlines()
    assert not [line for line in log if json.loads(line)["event"] == "dispatch"]
    assert {"train.bin", "train.idx", "tokenizer.json"} <= report["export"]["files"].keys()


def test_formats_of_rows_take_their_length(finished: Path) -> None:
    """The documents and tokens of another run are taken, so only rows are made."""
    asked: dict[str, Any] = {"format": "hf-parquet", "to": Path("rows"), "work": Path("out.work")}
    report = quick(**asked, seq_len=48, replace=True)
    (file,) = [name for name in report["export"]["files"] if name.startswith("train/")]
    table = pq.read_table(finished / "rows" / file)
    assert {len(row) for row in table.column("input_ids").to_pylist()} == {48}
    with pytest.raises(ConfigError, match=r"seq_len: 48 -> 32.*--replace"):
        quick(**asked, seq_len=32)
    before = contents(finished)
    with pytest.raises(ConfigError, match="a finished export of what --replace would make anew"):
        quick(**asked, seq_len=32, replace=True)
    assert contents(finished) == before
    assert quick(**asked, seq_len=48, replace=True)["export"]["already"]
    other = {**asked, "to": Path("other")}
    assert not quick(**other, seq_len=32, replace=True)["export"]["already"]


def test_a_target_that_holds_another_export_is_refused_before_the_run(finished: Path) -> None:
    with pytest.raises(ConfigError, match="format: nanogpt there, megatron asked for"):
        quick(format="megatron", work=Path("other"))
    (finished / "out" / "train.bin").unlink()
    with pytest.raises(FormatError, match=r"train\.bin: gone"):
        quick(work=Path("other"))
    assert not (finished / "other").exists()


def test_files_that_came_later_are_refused(finished: Path) -> None:
    (finished / "texts" / "c.jsonl").write_text('{"text": "a text that came later"}\n')
    before = contents(finished / "out")
    with pytest.raises(ConfigError, match=r"made without 1 of the files .*would not hold their rows"):
        quick()
    assert contents(finished / "out") == before


def test_a_lossy_tokenizer_is_said_to_be_one_and_a_preset_frames_its_documents(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError, match=r"needs the special id 'eos'.*\[tokenizer\.special\] eos"):
        quick(tokenizer=Path("bert.json"))
    asked: dict[str, Any] = {"tokenizer": Path("bert.json"), "framing": "bert", "validation": 0.0}
    report = quick(**asked, special=("eos=[SEP]",))
    print_quick(report, as_json=False)
    printed = " ".join(capsys.readouterr().out.split())
    assert "its normaliser changes upper case, accents, line feeds" in printed
    assert "are what encoding gives again (what they do not spell, the tokenizer loses)" in printed
    assert "no document was held out: raise --validation" in printed
    assert "the run is in out.work" in printed
    assert "How nanoGPT reads it" in printed
    again = quick(**asked, special=("eos=3",))
    assert again["export"]["already"], "the same id, named otherwise"
    library = tokenizers.Tokenizer.from_str(data_of("bert").decode())
    begin, end = (library.token_to_id(piece) for piece in ("[CLS]", "[SEP]"))
    ids = np.concatenate([np.fromfile(place, "<u2") for place in sorted(folder.glob("out/*.bin"))])
    lines = sum(len(place.read_text().splitlines()) for place in folder.glob("texts/*.jsonl"))
    assert np.count_nonzero(ids == begin) == np.count_nonzero(ids == end) == lines
    assert np.array_equal(np.flatnonzero(ids == begin)[1:], np.flatnonzero(ids == end)[:-1] + 1)
    said = f"A document begins with the id {begin} and ends in the id {end}"
    assert any(note.startswith(said) for note in report["export"]["notes"])


def large() -> bytes:
    """Return a tokenizer of more ids than nanoGPT's files can hold."""
    vocab = {"</s>": 0, "[UNK]": 1} | {f"w{number}": 2 + number for number in range(65_535)}
    made = tokenizers.Tokenizer(models.WordLevel(vocab, unk_token="[UNK]"))  # noqa: S106  # no password
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.add_special_tokens(["</s>"])
    return str(made.to_str()).encode()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": "nanogtp"}, r"--format nanogtp: no such format; did you mean 'nanogpt'\?"),
        ({"format": "megatron-sentences"}, "needs to know where sentences end.*write a run file"),
        ({"seq_len": 64}, "--seq-len 64: nanogpt holds whole documents.*leave --seq-len out"),
        ({"format": "mds", "seq_len": 1}, r"quick: packing\.seq_len = 1: must be at least 2"),
        ({"tokenizer": Path("large.json")}, r"holds ids below 65,536, but large\.json has .* 65,537"),
        ({"tokenizer": Path("gone.json")}, r"tokenizer\.path = 'gone\.json': no such file"),
        ({"special": ("eos",)}, "--special eos: must be ROLE=PIECE or ROLE=ID, such as eos=</s>"),
        ({"special": ("eos=5", "eos=6")}, "--special eos=6: eos is given twice"),
        ({"special": ("eod=3",)}, r"tokenizer\.special\.eod: no such key"),
        ({"special": ("eos=99999",)}, r"special\.eos = 99999: gpt2\.json has the ids 0 to "),
        ({"framing": "berd"}, r"quick: framing\.preset = 'berd': .*'bert'"),
        ({"validation": 0.9}, r"quick: validation\.fraction = 0\.9: must be at most 0\.5"),
        ({"to": Path("texts")}, "--to texts: is there and no export"),
        ({"to": Path()}, "has no name of its own"),
        ({"work": Path("out")}, "overlaps with the run folder"),
        ({"work": Path("out/run")}, "overlaps with the run folder"),
        ({"work": Path("out.partial")}, "overlaps with the run folder"),
        ({"work": Path()}, "overlaps with the run folder"),
        ({"to": Path("it/out"), "work": Path("it")}, "overlaps with the run folder"),
        ({"paths": ("nothing/*.jsonl",)}, r"sources\.texts\.paths: 'nothing/\*\.jsonl' matches no file"),
    ],
)
def test_what_cannot_end_is_not_begun(changes: dict[str, Any], said: str, folder: Path) -> None:
    if changes.get("tokenizer") == Path("large.json"):
        (folder / "large.json").write_bytes(large())
    with pytest.raises(ConfigError, match=said):
        quick(**changes)
    assert not (folder / "out").exists()
    assert not list(folder.glob("*/commits"))


def test_a_file_that_is_no_tokenizer_is_refused(folder: Path) -> None:
    (folder / "x.json").write_text("{}")
    with pytest.raises(FormatError, match=r"tokenizer\.path = 'x\.json': not a tokenizer\.json"):
        quick(tokenizer=Path("x.json"))
    with pytest.raises(FormatError, match=r"a\.jsonl'.*: not a tokenizer\.json"):
        quick(tokenizer=Path("texts/a.jsonl"))


def test_what_fails_its_checks_is_not_exported(finished: Path) -> None:
    for name in ("out", "out.work"):
        shutil.rmtree(finished / name)
    (finished / "unchecked").rename(finished / "out.work")
    place = next((finished / "out.work").glob("datasets/documents/train/*/*/input_ids.npy"))
    ids = np.load(place)
    ids[0, 0] += 1
    np.save(place, ids)
    with pytest.raises(DataError, match=r"input_ids\.npy: committed with XXH3 .*--replace"):
        quick()
    key = place.relative_to(finished / "out.work").as_posix()
    for commit, data in vouched(finished / "out.work", {key}).items():
        commit.write_bytes(data)
    with pytest.raises(VerificationError, match=r"out\.work: verify: FAIL: .*nothing is exported"):
        quick()
    assert not (finished / "out").exists()


def test_the_command_says_where_the_run_is(folder: Path) -> None:
    from stages.tokenizer.train import TrainConfig, train_model  # noqa: PLC0415  # only here

    (folder / "ours.model").write_bytes(train_model(SAMPLE, TrainConfig(vocab_size=556)))
    command = ["quick", "texts/a.jsonl", "texts/b.jsonl", "--tokenizer", "ours.model"]
    command += ["--format", "olmo-core", "--to", "out", "--workers", "0"]
    done = called(*command, "--json", "--work", "elsewhere", cwd=folder)
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert content["work"] == "elsewhere"
    assert "returned" not in content["run"]["verify"]["documents"], "it gives every text back"
    assert "tokenize" in done.stderr
    assert content["export"]["format"] in FORMATS
