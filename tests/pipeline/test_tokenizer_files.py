"""What a run and the commands do with every kind of tokenizer file.

The content says what a file is; what is converted stands in the run as the tokenizer.json that was
planned; a folder gives the one file in it.
"""

from pathlib import Path

import pytest

from pipeline.engine.tasks import Workspace
from pipeline.planning.existing import find_tokenizer, read_tokenizer_file
from pipeline.run_file.config import RunFile
from pipeline.steps.tokenizer.adopt import adopt_tokenizer
from pipeline.tools.tokenizer import verify as tokenizer_verify
from pipeline.tools.tokenizer.verify import verify_tokenizer
from stages.errors import ConfigError, FormatError
from stages.tokenizer.existing import TokenizerKind, open_tokenizer
from stages.tokenizer.stress import stress_texts
from tests.stages.tokenizer.existing_files import data_of
from tests.stages.tokenizer.test_ranks import END, PATTERN, by_the_rule, lines_of, trained_ranks
from tests.stages.tokenizer.test_recognised import tekken

TIKTOKEN = {"pattern": PATTERN, "special_tokens": {END: 2000}}


def run_file(path: str, **changes: object) -> RunFile:
    """Return a run with a tokenizer's file."""
    return RunFile.model_validate(
        {
            "sources": [{"name": "some", "paths": ["a.jsonl"]}],
            "tokenizer": {"path": path, **({"tiktoken": TIKTOKEN} if "rank" in path else {})},
            "datasets": [{"name": "clm"}],
            **changes,
        }
    )


def test_ranks_stand_in_the_run_as_the_file_of_the_same_ids(tmp_path: Path) -> None:
    place = tmp_path / "ranks.model"
    place.write_bytes(lines_of(trained_ranks()))
    adopted = find_tokenizer(run_file("ranks.model"), tmp_path)
    assert adopted is not None
    assert (adopted.kind, adopted.vocab_size) == (TokenizerKind.HUGGING_FACE, 2001)
    assert adopted.special_ids == {"eos": 2000, "pad": 2000}
    assert adopted.offer is None
    record = adopt_tokenizer(Workspace(tmp_path, tmp_path / "task"), adopted)
    made = tmp_path / "task" / "tokenizer" / "tokenizer.json"
    assert (record.file, record.sha256) == ("tokenizer.json", adopted.sha256)
    text = f"low tide, {END} 1234"
    tokenizer = open_tokenizer(made, adopted.special_ids)
    assert tokenizer.encode([text])[0].tolist() == by_the_rule(text, trained_ranks())
    place.write_bytes(lines_of(trained_ranks() | {b"zzzzzz": 1700}))
    with pytest.raises(FormatError, match=r"ranks\.model: changed since the run was planned"):
        adopt_tokenizer(Workspace(tmp_path, tmp_path / "other"), adopted)


def test_another_file_of_the_same_ranks_is_the_same_run(tmp_path: Path) -> None:
    for name, ranks in (
        ("rank-a", trained_ranks()),
        ("rank-b", dict(reversed(trained_ranks().items()))),
    ):
        (tmp_path / name).write_bytes(lines_of(ranks))
    one, other = (find_tokenizer(run_file(name), tmp_path) for name in ("rank-a", "rank-b"))
    assert one is not None
    assert other is not None
    assert (one.sha256, one.special_ids) == (other.sha256, other.special_ids)


def test_the_framing_of_the_family_is_offered_where_nothing_is_said_of_it(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(tekken())
    adopted = find_tokenizer(run_file("x"), tmp_path)
    assert adopted is not None
    assert adopted.offer == (
        "tokenizer.path = 'x': its models expect <s> before each text: set framing.begin = \"bos\""
    )
    framed = find_tokenizer(run_file("x", framing={"begin": "bos"}), tmp_path)
    special = {"fim_prefix": "[PREFIX]", "fim_middle": "[MIDDLE]", "fim_suffix": "[SUFFIX]"}
    objective = {"datasets": [{"name": "a", "objective": {"kind": "fim"}}]}
    unframed = find_tokenizer(
        run_file("x", tokenizer={"path": "x", "special": special}, **objective), tmp_path
    )
    assert framed is not None
    assert unframed is not None
    assert (framed.offer, unframed.offer) == (None, None)


def test_a_tekken_file_is_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer_verify, "stress_texts", lambda found: stress_texts(found, strings=28))
    (tmp_path / "tekken.json").write_bytes(tekken())
    found = verify_tokenizer(tmp_path)
    assert (found.special["eos"], found.kept_from_text, found.proof.failed) == (2, 24, {})
    assert found.framing == 'its models expect <s> before each text: set framing.begin = "bos"'


def test_ranks_that_are_not_known_are_verified_by_the_encoding_that_is_named(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(lines_of(trained_ranks()))
    with pytest.raises(ConfigError, match=r"x: tiktoken's ranks .*\(with verify: --encoding\)"):
        verify_tokenizer(tmp_path / "x")
    with pytest.raises(ConfigError, match="--encoding o300k: no such name; known are r50k_base"):
        verify_tokenizer(tmp_path / "x", encoding="o300k")


def test_a_folder_gives_the_file_in_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"m: this folder has no tokenizer\.model or tokenizer\.json"):
        read_tokenizer_file(tmp_path, "m", base=tmp_path)
    (tmp_path / "config.json").write_text("{}")
    for name, data in (
        ("tokenizer.model.v3", data_of("llama-model")),
        ("b.model", data_of("albert-model")),
        ("tekken.json", tekken()),
        ("tokenizer.json", data_of("gpt2")),
    ):
        (tmp_path / name).write_bytes(data)
        assert read_tokenizer_file(tmp_path, "m", base=tmp_path).path.name == name
    (tmp_path / "tokenizer").mkdir()
    (tmp_path / "tokenizer" / "tokenizer.json").write_bytes(data_of("gpt2"))
    with pytest.raises(ConfigError, match=r"m: this folder has tokenizer\.json, tokenizer\.json; name"):
        read_tokenizer_file(tmp_path, "m", base=tmp_path)


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="m: no such file or folder in /"):
        read_tokenizer_file(tmp_path / "none", "m", base=tmp_path)
    with pytest.raises(ValueError, match="tiktoken is for an existing tokenizer"):
        RunFile.model_validate(
            {**run_file("x").model_dump(), "tokenizer": {"tiktoken": {"encoding": "llama3"}}}
        )
