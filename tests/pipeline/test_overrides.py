"""What `--set` promises: one key of the run file, or of a source or dataset by its name."""

import pytest

from tests.pipeline.test_run_file import LEAST, Load, refusal


def test_overrides_set_numbers_strings_sizes_and_tables_that_were_not_there(load: Load) -> None:
    run = load(
        "seed = 3\n" + LEAST,
        "seed=4",
        "name=two words",
        'datasets=[{name = "a=b"}]'.replace("a=b", "other"),
        "packing.seq_len=1024",
        "dedup.minhash.threshold=0.7",
        "ingest.unit_size=1MiB",
        "dedup.exact=true",
    )
    assert (run.seed, run.name, run.datasets[0].name) == (4, "two words", "other")
    assert (run.packing.seq_len, run.dedup.minhash.threshold) == (1024, 0.7)
    assert run.ingest.unit_size == 1 << 20


def test_an_override_keeps_the_neighbours_of_its_key_and_the_last_one_wins(load: Load) -> None:
    run = load(
        LEAST + "[packing]\nseq_len = 64\nshards = 3\n", "packing.seq_len=8", "packing.seq_len=16"
    )
    assert (run.packing.seq_len, run.packing.shards) == (16, 3)


def test_a_value_may_hold_an_equals_sign(load: Load) -> None:
    assert load(LEAST, "name=a=b").name == "a=b"


@pytest.mark.parametrize("override", ["packing.seq_len", "=3", ""])
def test_an_override_that_is_no_key_and_value_is_refused(override: str, load: Load) -> None:
    assert f"--set {override}: must be KEY=VALUE" in refusal(load, LEAST, override)


@pytest.mark.parametrize(
    ("override", "group"),
    [("seed.x=3", "seed"), ("packing.seq_len.x=1", "seq_len")],
)
def test_an_override_through_what_is_no_table_is_refused(override: str, group: str, load: Load) -> None:
    text = "seed = 3\n" + LEAST + "[packing]\nseq_len = 64\n"
    assert f"--set {override}: {group} is not a table" in refusal(load, text, override)


def test_an_override_of_a_source_or_dataset_goes_by_its_name(load: Load) -> None:
    run = load(LEAST, "sources.web.text_column=body", 'datasets.clm.objective={kind = "mlm"}')
    assert run.sources[0].text_column == "body"
    assert run.datasets[0].objective.kind == "mlm"
    unnamed = "--set sources.name=x: sources is a list; write sources.NAME.name=x; names: web"
    assert unnamed in refusal(load, LEAST, "sources.name=x")
    filters = LEAST + '[[filters]]\nkind = "length"\n'
    for override in ("filters.0.kind=x", "filters.kind=x"):
        message = refusal(load, filters, override)
        assert f"--set {override}: filters is a list; its items have no names: set all of it" in message
    unknown = "--set sources.books.root=x: sources has none of the name 'books'; there are web"
    assert unknown in refusal(load, LEAST, "sources.books.root=x")


@pytest.mark.parametrize("word", ["no", "off", "false ", '"false"', "0", "1", "True"])
def test_a_flag_is_true_or_false_and_no_word_that_could_mean_it(word: str, load: Load) -> None:
    if word.strip() == "false":
        assert not load(LEAST, f"dedup.near={word}").dedup.near
        return
    message = refusal(load, LEAST, f"dedup.near={word}")
    assert "run.toml: dedup.near = " in message
    assert message.endswith(": must be true or false")


def test_a_typo_in_an_override_is_explained_as_one_in_the_file(load: Load) -> None:
    message = refusal(load, LEAST, "packing.seqlen=8")
    assert "packing.seqlen: no such key; did you mean 'seq_len'?" in message
