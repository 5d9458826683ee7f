"""What the roles of ids promise: the run file counts most, then the file, then one well-known piece.

Nothing is guessed where two pieces could be meant; what is missing is said with the line that names it.
"""

from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import ValidationError

from stages.errors import ConfigError
from stages.tokenizer.existing import describe
from stages.tokenizer.roles import Roles, SpecialPieces, TokenizerDescription, find_roles, require_roles
from stages.tokenizer.special import special_ids
from tests.stages.tokenizer.existing_files import EXTRA, FILES, data_of, kind_of_file


def described(marks: dict[str, int], **declared: int) -> TokenizerDescription:
    """Return a vocabulary of ten letters behind some marks, which the file keeps from text."""
    letters = {letter: 20 + number for number, letter in enumerate("abcdefghij")}
    return TokenizerDescription(30, marks | letters, marks, frozenset(marks.values()), declared)


def found(marks: dict[str, int], declared: dict[str, int] | None = None, **special: Any) -> Roles:
    return find_roles(described(marks, **(declared or {})), SpecialPieces(**special), name="x.json")


EXPECTED: dict[str, dict[str, int]] = {
    "gpt2": {"eos": 0},
    "bert": {"unk": 1, "pad": 0, "cls": 2, "sep": 3, "mask": 4},
    "t5": {"unk": 2, "eos": 1, "pad": 0, **{f"sentinel_{n}": 3 + n for n in range(EXTRA)}},
    "llama-json": {"unk": 0, "bos": 1, "eos": 2},
    "albert-model": {"unk": 0, "bos": 1, "eos": 2, "pad": 3, "cls": 4, "sep": 5, "mask": 6},
    "llama-model": {"unk": 0, "bos": 1, "eos": 2},
}


@pytest.mark.parametrize("name", FILES)
def test_well_known_pieces_are_found(name: str) -> None:
    roles = find_roles(
        describe(data_of(name), kind_of_file(name), name=name), SpecialPieces(), name=name
    )
    assert roles.ids == EXPECTED[name]
    assert not roles.unsure
    assert roles.sentinels == (EXTRA if name == "t5" else 0)


def test_the_run_file_counts_more_than_the_file_and_the_file_more_than_a_piece() -> None:
    marks = {"</s>": 3, "<eos>": 4, "<end>": 5}
    assert found(marks).unsure == {"eos": ("</s>", "<eos>")}
    assert found(marks, {"eos": 5}).ids["eos"] == 5
    assert found(marks, {"eos": 5}, eos="<eos>").ids["eos"] == 4
    assert found(marks, {"eos": 5}, eos=21).ids["eos"] == 21
    assert found(marks, eos="b").ids["eos"] == 21


def test_a_piece_that_the_file_keeps_from_text_counts_more_than_one_that_it_only_marks() -> None:
    marks = {"<eos>": 1, "<bos>": 2, "<s>": 4, "</s>": 5}  # as Gemma's: the last two are HTML's
    gemma = TokenizerDescription(9, marks, marks, frozenset({1, 2}), {})
    roles = find_roles(gemma, SpecialPieces(), name="x")
    assert (roles.ids, roles.unsure) == ({"bos": 2, "eos": 1}, {})


@pytest.mark.parametrize(
    ("bos", "eos"),
    [
        ("<\uff5cbegin\u2581of\u2581sentence\uff5c>", "<\uff5cend\u2581of\u2581sentence\uff5c>"),
        ("<BOS_TOKEN>", "<EOS_TOKEN>"),
        ("<META>", "<EOT>"),
    ],
)
def test_the_ends_of_documents_of_other_families_are_known(bos: str, eos: str) -> None:
    ids = found({bos: 3, eos: 4}).ids
    assert ids["eos"] == 4
    assert ids["reserved_3" if bos == "<META>" else "bos"] == 3


def test_pieces_of_text_are_taken_only_if_the_run_file_says_so() -> None:
    texts = TokenizerDescription(9, {"</s>": 3, "<mask>": 4}, {}, frozenset(), {})
    assert find_roles(texts, SpecialPieces(), name="x").ids == {}
    assert find_roles(texts, SpecialPieces(mask="<mask>"), name="x").ids == {"mask": 4}


def test_what_is_kept_from_text_and_has_no_role_is_reserved() -> None:
    roles = found({"</s>": 3, "<|tool|>": 7, "<|user|>": 5})
    assert roles.ids == {"eos": 3, "reserved_5": 5, "reserved_7": 7}
    assert list(roles.ids) == ["eos", "reserved_5", "reserved_7"]


def test_roles_stand_in_the_order_of_a_trained_tokenizer() -> None:
    marks = {f"<sentinel_{n}>": 29 - n for n in range(3)} | {"<mask>": 9, "<pad>": 1, "</s>": 2}
    order = [name for name in special_ids() if name in found(marks).ids]
    assert list(found(marks).ids) == order
    assert order == ["eos", "pad", "mask", "sentinel_0", "sentinel_1", "sentinel_2"]


def test_sentinels_are_counted_up_to_the_first_that_is_missing() -> None:
    marks = {"<extra_id_0>": 9, "<extra_id_1>": 8, "<extra_id_3>": 7}
    roles = found(marks)
    assert (roles.sentinels, roles.ids["sentinel_1"]) == (2, 8)
    assert roles.ids["reserved_7"] == 7
    both = marks | {"<sentinel_0>": 1}
    assert found(both).sentinels == 0, "two could be meant"
    assert found(both, sentinels="<extra_id_{}>").sentinels == 2
    assert found({"[S0]": 1, "[S1]": 2}, sentinels="[S{}]").ids == {"sentinel_0": 1, "sentinel_1": 2}
    spent = {f"<extra_id_{n}>": 20 - n for n in range(4)}
    for pattern in (None, "<extra_id_{}>"):
        roles = found(spent, mode_r="<extra_id_2>", sentinels=pattern)
        assert (roles.sentinels, roles.ids["mode_r"]) == (2, 18), "an id has one role"


def test_what_unknown_characters_are_given_never_closes_documents_unasked() -> None:
    assert "eos" not in found({"<|endoftext|>": 3}, {"unk": 3}).ids
    assert found({"<|endoftext|>": 3, "</s>": 4}, {"unk": 3}).ids["eos"] == 4
    assert found({"<|endoftext|>": 3}).ids["eos"] == 3


@pytest.mark.parametrize(
    ("special", "said"),
    [
        ({"eos": "<stop>"}, r"eos = '<stop>': no such piece in x\.json; set apart from text are '</s>'"),
        ({"pad": 30}, r"pad = 30: x\.json has the ids 0 to 29"),
        ({"pad": -1}, r"pad = -1: x\.json has the ids 0 to 29"),
        ({"eos": 0}, r"eos = 0: is what x\.json gives for unknown characters, which texts may hold"),
        ({"unk": 3}, r"unk = 3: x\.json gives 0 for unknown characters, whatever is named"),
        ({"sentinels": "<e{}>"}, r"sentinels = '<e\{\}>': x\.json has no piece '<e0>'; write \{\}"),
        ({"sentinels": "</s>"}, r"sentinels = '</s>': x\.json has no piece '</s>'; write \{\} where"),
    ],
)
def test_what_is_not_in_the_vocabulary_is_refused(special: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=rf"tokenizer\.special\.{said}"):
        found({"</s>": 3, "<unk>": 0}, {"unk": 0}, **special)


def test_a_vocabulary_without_marks_says_so() -> None:
    with pytest.raises(ConfigError, match=r"no such piece in x\.json; it sets none apart from text"):
        found({}, eos="</s>")
    with pytest.raises(ConfigError, match=r"'<8>', \.\.\.$|'<7>', \.\.\.$"):
        found({f"<{n}>": n for n in range(12)}, eos="</s>")


def test_other_roles_are_no_keys() -> None:
    with pytest.raises(ValidationError, match="eod"):
        SpecialPieces(eod="</s>")  # type: ignore[call-arg]  # what is tested


def test_what_is_missing_is_said_with_the_line_that_names_it() -> None:
    roles = found({"</s>": 3, "<eos>": 4, "<pad>": 5})
    require_roles(roles, ["pad"], who="it", name="x.json")
    with pytest.raises(ConfigError) as several:
        require_roles(roles, ["pad", "eos"], who="dataset 'a': kind = 'clm'", name="x.json")
    assert str(several.value) == (
        "dataset 'a': kind = 'clm' needs the special id 'eos', and x.json has '</s>' and '<eos>'; say"
        ' which is meant: [tokenizer.special] eos = "</s>" (with quick: --special eos=</s>), or train a'
        " tokenizer, which has all"
    )
    with pytest.raises(ConfigError) as none:
        require_roles(roles, ["mask"], who="dataset 'b': kind = 'mlm'", name="x.json")
    assert str(none.value) == (
        "dataset 'b': kind = 'mlm' needs the special id 'mask', and x.json has no piece known for it;"
        ' name one, or its id: [tokenizer.special] mask = "PIECE" (with quick: --special mask=PIECE), or'
        " train a tokenizer, which has all"
    )
    with pytest.raises(ConfigError, match=r"'sentinels'.*sentinels = \"PIECE_\{\}\""):
        require_roles(roles, ["sentinel_0"], who="it", name="x.json")


def proposed(pieces: Sequence[str], roles: Sequence[str]) -> list[str]:
    """Return what is proposed for roles that are asked for together, one after the other."""
    marks = {piece: number for number, piece in enumerate(pieces)}
    said = []
    for role in roles:  # each is named in the message once those before it are named in the run file
        with pytest.raises(ConfigError) as refused:
            require_roles(found(marks), [role, *roles], who="it", name="x.json")
        said.append(str(refused.value).split(" --special ")[1].split("=")[1].split(")")[0])
    return said


def test_pieces_of_the_file_are_proposed_for_what_is_missing() -> None:
    unused = [f"<unused{number}>" for number in range(8)]
    pieces = [*unused, "<|im_end|>", "<|my_pad|>", "[SEP]", "[CLS]"]
    assert proposed(pieces, ["eos", "pad"]) == ["<|im_end|>", "<|my_pad|>"]
    assert proposed(pieces, ["mask"]) == proposed(pieces, ["mode_r"]) == ["<unused0>"]
    assert proposed(pieces, ["bos"]) == ["[CLS]"]
    assert proposed(pieces, ["sentinel_0"]) == ["<unused{}>"]
    assert proposed(["</s>", "[SEP]"], ["bos"]) == ["</s>"]
    assert proposed(["[SEP]"], ["sentinel_0"]) == ["PIECE_{}"]


@pytest.mark.parametrize(
    "pieces",
    [
        ("[PREFIX]", "[MIDDLE]", "[SUFFIX]"),
        ("<[fim-prefix]>", "<[fim-middle]>", "<[fim-suffix]>"),
        ("<|code_prefix|>", "<|code_middle|>", "<|code_suffix|>"),
        ("<PRE>", "<MID>", "<SUF>"),
        ("<\uff5cfim\u2581begin\uff5c>", "<\uff5cfim\u2581end\uff5c>", "<\uff5cfim\u2581hole\uff5c>"),
    ],
)
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_pieces_of_fim_are_proposed_for_fim_and_for_nothing_else(
    pieces: tuple[str, ...], order: tuple[int, ...]
) -> None:
    roles = ["fim_prefix", "fim_middle", "fim_suffix"]
    there = ["<|reserved_0|>", *(pieces[place] for place in order), "<|reserved_1|>", "<|x|>"]
    assert proposed(there, roles) == [*pieces]
    assert proposed(there, ["pad", *roles]) == ["<|reserved_0|>", *pieces]
    assert proposed(pieces, ["mask"]) == ["PIECE"]
    assert proposed([*pieces, "<|x|>"], ["eos"]) == ["<|x|>"]


@pytest.mark.parametrize(
    ("one", "other", "may"),
    [
        ("bos", "cls", True),
        ("bos", "eos", True),
        ("eos", "sep", True),
        ("eos", "pad", False),
        ("cls", "eos", False),
        ("mask", "pad", False),
    ],
)
def test_only_roles_that_cannot_be_mistaken_share_an_id(one: str, other: str, *, may: bool) -> None:
    roles = Roles({one: 3, other: 3})
    if may:
        require_roles(roles, [one, other], who="it", name="x")
        return
    with pytest.raises(ConfigError, match=rf"it needs '{one}' and '{other}' to be two ids, and both"):
        require_roles(roles, [one, other], who="it", name="x")
