"""What choosing promises: tensors with a row for each id are found, and what is not clear is refused."""

from collections.abc import Mapping

import pytest

from stages.errors import ConfigError
from stages.resize.tensors import TensorInfo, choose_tensors

LLAMA = {
    "model.embed_tokens.weight": (320, 8),
    "model.layers.0.mlp.up_proj.weight": (96, 8),
    "model.norm.weight": (8,),
    "lm_head.weight": (320, 8),
}


def infos(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, TensorInfo]:
    """Return tensors of these shapes."""
    return {name: TensorInfo(shape, "F32", name) for name, shape in shapes.items()}


@pytest.mark.parametrize(
    ("shapes", "found"),
    [
        (LLAMA, ["model.embed_tokens.weight", "lm_head.weight"]),
        ({"tok_embeddings.weight": (320, 8), "output.weight": (320, 8)}, None),
        ({"transformer.wte.weight": (320, 8), "transformer.wpe.weight": (16, 8)}, 1),
        ({"gpt_neox.embed_in.weight": (320, 8), "embed_out.weight": (320, 8)}, None),
        (
            {
                "bert.embeddings.word_embeddings.weight": (320, 8),
                "bert.embeddings.position_embeddings.weight": (16, 8),
                "bert.embeddings.token_type_embeddings.weight": (2, 8),
            },
            1,
        ),
        ({"cls.predictions.bias": (320,), "word_embeddings.weight": (320, 8)}, None),
        ({"model.shared.weight": (320, 8), "final_logits_bias": (1, 320)}, None),
    ],
)
def test_tensors_of_known_names_and_sizes_are_found(
    shapes: Mapping[str, tuple[int, ...]], found: list[str] | int | None
) -> None:
    expected = list(shapes)[:found] if isinstance(found, int) else found or list(shapes)
    assert choose_tensors(infos(shapes), old_size=320) == expected
    assert choose_tensors(infos(shapes), old_size=310, vocab_size=320) == expected


def test_named_tensors_are_taken_and_no_others() -> None:
    shapes = LLAMA | {"prototypes": (320, 4), "table": (7, 320)}
    assert choose_tensors(infos(shapes), old_size=320, named=["prototypes"]) == ["prototypes"]


@pytest.mark.parametrize(
    ("shapes", "asked", "message"),
    [
        (LLAMA, {"old_size": 321}, r"no embedding of 321 rows or more.*embed_tokens.weight \(320, 8\)"),
        ({"a": (320, 8)}, {"old_size": 320}, r"no embedding.*it has a \(320, 8\).*--tensor NAME"),
        (LLAMA | {"prototypes": (320, 4)}, {"old_size": 320}, r"prototypes \(320, 4\): as large as"),
        (LLAMA | {"head_t": (8, 320)}, {"old_size": 320}, r"head_t \(8, 320\): as large as"),
        (LLAMA | {"src.embed_tokens.weight": (400, 8)}, {"old_size": 300}, "different numbers of rows"),
        (LLAMA, {"old_size": 320, "vocab_size": 321}, "320 rows, but config.json says vocab_size = 321"),
        ({"wte.weight": (32_000, 8)}, {"old_size": 4_096}, "27,904 rows more than --old has ids"),
        (LLAMA, {"old_size": 320, "named": ["lm_head"]}, "--tensor lm_head: the checkpoint has none"),
        (LLAMA, {"old_size": 320, "named": ["model.norm.weight"]}, "8 rows, but --old has 320 ids"),
        (LLAMA | {"one": ()}, {"old_size": 320, "named": ["one"]}, "--tensor one: has no rows"),
        ({}, {"old_size": 320}, "it has no tensor"),
    ],
)
def test_what_is_not_clear_is_refused(
    shapes: Mapping[str, tuple[int, ...]], asked: Mapping[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        choose_tensors(infos(shapes), **asked)  # type: ignore[arg-type]  # a table of arguments


def test_a_name_makes_clear_what_was_not() -> None:
    shapes = {"wte.weight": (32_000, 8)}
    assert choose_tensors(infos(shapes), old_size=4_096, named=["wte.weight"]) == ["wte.weight"]
