"""What a run file promises: one frozen model, and errors that name the key, the value, the way out."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from pipeline.run_file.config import RunFile
from pipeline.run_file.load import load_run_file
from stages.errors import ConfigError
from stages.objectives.clm.config import CausalLM
from stages.objectives.mlm.config import MaskedLM, Selection
from stages.objectives.span_corruption.config import SpanCorruption
from stages.tokenizer.special import NUM_SENTINELS
from tests.campaign import examples
from tests.stages.objectives.test_span_counts import counts, longest_body

Load = Callable[..., RunFile]

SOURCE = '[[sources]]\nname = "web"\npaths = ["*.jsonl"]\n'
DATASET = '[[datasets]]\nname = "clm"\n'
LEAST = SOURCE + DATASET


def refusal(load: Load, text: str, *overrides: str) -> str:
    """Return the message with which a text is refused."""
    with pytest.raises(ConfigError) as caught:
        load(text, *overrides)
    return str(caught.value)


def test_sources_and_datasets_are_all_that_a_run_needs(load: Load) -> None:
    run = load(LEAST)
    assert (run.name, run.seed, run.packing.seq_len) == ("run", 0, 512)
    assert [source.name for source in run.sources] == ["web"]
    assert [dataset.name for dataset in run.datasets] == ["clm"]


@pytest.mark.parametrize(
    ("text", "place", "meant"),
    [
        ("tokeniser = 1\n" + LEAST, "tokeniser", "tokenizer"),
        (LEAST + "[packing]\nseqlen = 5\n", "packing.seqlen", "seq_len"),
        (LEAST + "[dedup.minhash]\nnum_prem = 5\n", "dedup.minhash.num_prem", "num_perm"),
        (LEAST + "[tokenizer.train]\nvocab = 5\n", "tokenizer.train.vocab", "vocab_size"),
        (SOURCE + 'text_colum = "x"\n' + DATASET, "sources.web.text_colum", "text_column"),
        (LEAST + "[datasets.objective]\nknd = 1\n", "datasets.clm.objective.knd", "kind"),
        (
            LEAST + '[datasets.objective]\nkind = "mlm"\nmask_prob = 0.2\n',
            "datasets.clm.objective.mask_prob",
            "mask_probability",
        ),
        (LEAST + "[datasets.packing]\nseq_lenn = 8\n", "datasets.clm.packing.seq_lenn", "seq_len"),
    ],
)
def test_a_typo_is_named_with_its_place_and_the_nearest_key(
    text: str, place: str, meant: str, load: Load
) -> None:
    assert f"run.toml: {place}: no such key; did you mean {meant!r}?" in refusal(load, text)


def test_an_unknown_key_near_to_none_lists_the_known_ones(load: Load) -> None:
    message = refusal(load, LEAST + "[packing]\ncolour = 1\n")
    assert "packing.colour: no such key; known here: seq_len, strategy, shard_size, shards" in message


@pytest.mark.parametrize(
    ("text", "explanation"),
    [
        (
            LEAST + '[packing]\nseq_len = "many"\n',
            "packing.seq_len = 'many': must be a whole number",
        ),
        (
            LEAST + "[packing]\nseq_len = 1\n",
            "packing.seq_len = 1: must be at least 2",
        ),
        ("seed = -1\n" + LEAST, "seed = -1: must be at least 0"),
        (
            LEAST + '[dedup]\nkeep = "shortest"\n',
            "dedup.keep = 'shortest': must be 'first' or 'longest', or a table",
        ),
        (
            SOURCE + 'dedup = "never"\n' + DATASET,
            "sources.web.dedup = 'never': must be 'within', or true or false",
        ),
        (
            LEAST + '[dedup.semantic]\nencoder = "mine"\n',
            "dedup.semantic.encoder = 'mine': must be \"wordllama\", or the name of a function",
        ),
        ("seed = nan\n" + LEAST, "seed = nan: must be a finite number"),
        (
            LEAST + "[ingest]\nmax_bad_fraction = 2.5\n",
            "ingest.max_bad_fraction = 2.5: must be at most 1",
        ),
        (
            LEAST + '[resources]\nmemory = "64MiB"\n',
            "resources.memory = '64MiB': must be at least 1GiB",
        ),
        (
            LEAST + '[ingest]\nunit_size = "sixty"\n',
            "ingest.unit_size = 'sixty': must be a size, such as 65536, '200KiB' or '4GiB'",
        ),
        (
            LEAST + '[packing]\nstrategy = "worst_fit"\n',
            "packing.strategy = 'worst_fit': must be 'best_fit', 'concat', 'document' or 'full'",
        ),
        ("packing = 3\n" + LEAST, "packing = 3: must be a table"),
        (LEAST + '[packing]\nseq_len = "1"\n', "packing.seq_len = '1': must be at least 2"),
        (
            LEAST.replace('["*.jsonl"]', '"*.jsonl"'),
            "sources.web.paths = '*.jsonl': must be a list; write paths = ['*.jsonl']",
        ),
        (
            SOURCE + 'chat = { template = "chatml", learn = "assistant" }\n' + DATASET,
            "sources.web.chat.learn = 'assistant': must be a list; write learn = ['assistant']",
        ),
    ],
)
def test_a_wrong_value_is_named_with_its_key_and_the_bound(
    text: str, explanation: str, load: Load
) -> None:
    assert f"run.toml: {explanation}" in refusal(load, text)


def test_a_source_is_named_by_its_name_unless_that_is_at_fault_or_not_its_own(load: Load) -> None:
    second = SOURCE.replace("web", "books")
    assert "; sources.books.root = 'a\\x00': " in refusal(
        load, SOURCE + 'encoding = "x"\n' + second + 'root = "a\\u0000"\n' + DATASET
    )
    both = second + 'text_column = "a"\nchat = { template = "chatml" }\n'
    assert "run.toml: sources.books: chat and text_column" in refusal(load, SOURCE + both + DATASET)
    assert "sources.1.root = 5: " in refusal(load, SOURCE + SOURCE + "root = 5\n" + DATASET)
    assert "sources.1.name = 5: " in refusal(load, SOURCE + second.replace('"books"', "5") + DATASET)
    assert "sources.0 = 7: " in refusal(load, "sources = [7]\n" + DATASET)


def test_every_fault_of_a_file_is_named_at_once(load: Load) -> None:
    message = refusal(load, "seed = -1\n" + LEAST + "[packing]\nseq_len = 1\n")
    assert "seed = -1: " in message
    assert "packing.seq_len = 1: " in message


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (DATASET, "sources"),
        (SOURCE, "datasets"),
        ('[[sources]]\npaths = ["*.jsonl"]\n' + DATASET, "sources.0.name"),
        (SOURCE + "[[datasets]]\n", "datasets.0.name"),
    ],
)
def test_a_missing_key_is_said_to_be_required(text: str, place: str, load: Load) -> None:
    assert f"run.toml: {place}: is required" in refusal(load, text)


@pytest.mark.parametrize(("text", "place"), [("sources = []\n" + DATASET, "sources")])
def test_an_empty_list_of_sources_is_refused(text: str, place: str, load: Load) -> None:
    assert f"{place} = []: " in refusal(load, text)


@pytest.mark.parametrize(
    ("text", "explanation"),
    [
        (SOURCE + LEAST, "sources: the name 'web' stands twice"),
        (LEAST + DATASET, "datasets: the name 'clm' stands twice"),
    ],
)
def test_a_name_that_stands_twice_is_refused(text: str, explanation: str, load: Load) -> None:
    assert explanation in refusal(load, text)


@pytest.mark.parametrize(
    ("text", "explanation"),
    [
        (
            'kind = "rtd"',
            "run.toml: datasets.clm.objective.kind = 'rtd': must be one of 'bart', 'clm', ",
        ),
        ('kind = "mlm"\nmask_probability = 0.0', "datasets.clm.objective.mask_probability = 0.0: "),
        ('kind = "mlm"\nmask_share = 0.95', "mask_share = 0.95 and random_share = 0.1 must not pass 1"),
        (
            'kind = "mlm"\nmask_first_token = true',
            "datasets.clm.objective.mask_first_token: no such key",
        ),
        ('kind = "nsp"\n[datasets.packing]\nseq_len = 4', "seq_len = 4: rows of nsp need at least 5"),
        ('kind = "fim"\n[datasets.packing]\nseq_len = 3', "seq_len = 3: rows of fim need at least 4"),
        (
            'kind = "fim"\nlevel = "character"\n[datasets.packing]\nseq_len = 11',
            "seq_len = 11: rows of fim need at least 12",
        ),
        (
            'kind = "fim"\nlevel = "character"\n[datasets.objective.sources.b]\nfim_rate = 1.0',
            "dataset 'clm': objective.sources.b: no such source; the run has web",
        ),
    ],
)
def test_an_objective_that_cannot_be_is_refused(text: str, explanation: str, load: Load) -> None:
    assert explanation in refusal(load, LEAST + f"[datasets.objective]\n{text}\n")


def test_an_objective_is_causal_unless_its_kind_says_otherwise(load: Load) -> None:
    plain = load(LEAST + "[datasets.objective]\nmask_first_token = true\n").datasets[0].objective
    assert plain == CausalLM(mask_first_token=True)
    masked = load(LEAST + '[datasets.objective]\nkind = "mlm"\nselection = "exact"\n')
    assert masked.datasets[0].objective == MaskedLM(selection=Selection.EXACT)


@pytest.mark.parametrize("name", ["a/b", "", "..", "-a", ".a", "a b", "a.b", "é", r"a\n"])
@pytest.mark.parametrize("kind", ["sources", "datasets"])
def test_a_name_that_can_be_no_file_is_refused(name: str, kind: str, load: Load) -> None:
    good = {"sources": "web", "datasets": "clm"}[kind]
    message = refusal(load, LEAST.replace(f'"{good}"', f'"{name}"'))
    assert f"{kind}.0.name = " in message
    assert "must be letters, digits, '_' and '-', since it names files" in message


@pytest.mark.parametrize("name", ["a", "0", "my-web_2"])
def test_letters_digits_dashes_and_underscores_name_a_source(name: str, load: Load) -> None:
    assert load(LEAST.replace('"web"', f'"{name}"')).sources[0].name == name


def test_near_duplicates_without_exact_ones_are_refused(load: Load) -> None:
    message = refusal(load, LEAST + "[dedup]\nexact = false\n")
    assert "run.toml: dedup: near = true needs exact = true" in message
    assert not load(LEAST + "[dedup]\nexact = false\nnear = false\n").dedup.exact


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ('"64MiB"', 64 << 20),
        ('"2GiB"', 2 << 30),
        ('"1.5KiB"', 1536),
        ('"3MB"', 3_000_000),
        ("4096", 4096),
    ],
)
def test_sizes_are_read_with_their_units(written: str, size: int, load: Load) -> None:
    assert load(LEAST + f"[ingest]\nunit_size = {written}\n").ingest.unit_size == size


def test_a_file_that_is_missing_no_file_or_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: no such run file"):
        load_run_file(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="is a folder, and a run file is a regular file"):
        load_run_file(tmp_path)
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"bytes\.toml: not TOML"):
        load_run_file(tmp_path / "bytes.toml")


def test_a_file_that_is_no_toml_is_refused_with_the_line(load: Load) -> None:
    assert "run.toml: not TOML: " in refusal(load, "name = 'x'\nseed = \n")
    assert "line 2" in refusal(load, "name = 'x'\nseed = \n")


LOSS_MIXTURE = """kind = "mixture"
[[datasets.objective.components]]
[datasets.objective.components.objective]
kind = "clm"
[[datasets.objective.components]]
[datasets.objective.components.objective]
kind = "clm"
loss = "targets"
"""
SPLIT_MIXTURE = """kind = "mixture"
[[datasets.objective.components]]
[datasets.objective.components.objective]
kind = "prefix_lm"
split = "source"
[[datasets.objective.components]]
[datasets.objective.components.objective]
kind = "prefix_lm"
"""


@pytest.mark.parametrize(
    ("columns", "text", "explanation"),
    [
        ("", 'kind = "prefix_lm"\nsplit = "source"', "no source has section_columns"),
        (
            "",
            'kind = "clm"\nloss = "targets"',
            'write chat = { template = "chatml" } for a source of lists of messages, or ',
        ),
        ("", 'kind = "simcse"\nviews = "pairs"', "no source has 1 section_columns"),
        ('section_columns = ["a"]', LOSS_MIXTURE, 'set split to "drawn" or loss to "all"'),
        (
            'section_columns = ["a"]',
            'kind = "simcse"\nviews = "triples"',
            "dataset 'clm': its rows are laid out by a source's sections, and no source has 2",
        ),
        (
            'section_columns = ["a"]',
            SPLIT_MIXTURE,
            "components: the sections of a source lay out rows of their own",
        ),
    ],
)
def test_sections_that_rows_need_are_asked_of_the_sources(
    columns: str, text: str, explanation: str, load: Load
) -> None:
    least = LEAST.replace("[[datasets]]", f"{columns}\n[[datasets]]", 1)
    assert explanation in refusal(load, least + f"[datasets.objective]\n{text}\n")


SPANS = {"kind": "span_corruption", "noise_density": 0.5}


@settings(deadline=None, max_examples=examples(60))
@given(
    st.sampled_from(
        [
            SPANS,
            {"kind": "ul2"},
            {"kind": "ul2", "mode_tokens": False},
            {"kind": "mixture", "components": [{"objective": {"kind": "bart"}}, {"objective": SPANS}]},
        ]
    ),
    st.integers(900, 1_200),
)
@example(SPANS, 1_024)
@example({"kind": "ul2"}, 1_025)
def test_a_run_file_is_refused_by_the_sentinels_that_its_longest_row_needs(
    objective: dict[str, object], seq_len: int
) -> None:
    mode = "mode_x" if objective == {"kind": "ul2"} else None
    densest = SpanCorruption(noise_density=0.5, mode_token=mode)
    needed = counts(longest_body(densest, seq_len), densest)[1]
    content = {
        "sources": [{"name": "web", "paths": ["*.jsonl"]}],
        "packing": {"seq_len": seq_len},
        "datasets": [{"name": "t5", "objective": objective}],
    }
    if needed <= NUM_SENTINELS:
        assert RunFile.model_validate(content).packing.seq_len == seq_len
        return
    with pytest.raises(ValidationError, match=rf"dataset 't5': .* up to {needed} spans"):
        RunFile.model_validate(content)


def test_what_was_set_alone_is_the_run_file_again() -> None:
    content = {
        "sources": [{"name": "s", "paths": ["*.jsonl"]}],
        "dedup": {"substrings": {"min_bytes": 80}},
        "datasets": [
            {"name": "c"},
            {"name": "o", "objective": {"kind": "clm", "mask_first_token": True}},
        ],
    }
    file = RunFile.model_validate(content)
    assert RunFile.model_validate(file.model_dump(mode="json", exclude_unset=True)) == file
