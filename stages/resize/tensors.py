"""Chosen tensors: which tensors of a checkpoint have a row for each id.

model.embed_tokens.weight   (32000, 4096)   a known name, and rows for all ids    chosen
lm_head.weight              (32000, 4096)   likewise                              chosen
model.layers.0.mlp.up.weight (11008, 4096)  other rows                            left alone
prototypes                  (32000, 64)     rows for all ids, no known name       refused: which is it?
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stages.errors import ConfigError

KNOWN = (
    *("embed_tokens.weight", "tok_embeddings.weight", "word_embeddings.weight", "wte.weight"),
    *("embed_in.weight", "shared.weight", "embeddings.weight", "embedding.weight", "embed.weight"),
    *("token_embedding.weight", "token_embeddings.weight", "tok_emb.weight", "emb.weight"),
    *("lm_head.weight", "output.weight", "embed_out.weight", "output_layer.weight", "head.weight"),
    *("decoder.weight", "unembed.weight", "generator_lm_head.weight"),
    *("lm_head.bias", "predictions.bias", "decoder.bias", "output.bias", "embed_out.bias"),
    *("head.bias", "generator_lm_head.bias", "final_logits_bias"),
)
"""Names, or ends of names, of embeddings and heads: of Llama, GPT-2, GPT-NeoX, BERT, T5, BART, Megatron
and the like."""
_MOST_PADDING = 1024
"""Rows beyond the ids that a padded checkpoint may have unasked; public ones have up to 905."""
_SHOWN = 6


class TensorInfo(NamedTuple):
    """What is known of a tensor without reading it."""

    shape: tuple[int, ...]
    dtype: str
    """By the names of safetensors."""
    storage: str
    """The same for tensors that are one in memory."""

    @property
    def rows(self) -> int:
        """Return the first axis that is not 1, as the biases of BART are (1, V); 0 if there is none."""
        return next((size for size in self.shape if size != 1), 0)


def choose_tensors(
    tensors: Mapping[str, TensorInfo],
    *,
    old_size: int,
    named: Sequence[str] = (),
    vocab_size: int | None = None,
) -> list[str]:
    """Return the names of the tensors that have a row for each id, in the order of the checkpoint.

    Args:
        tensors: of the checkpoint.
        old_size: ids of the old tokenizer.
        named: those that the user names, and no others.
        vocab_size: what the model's config says.

    Raises:
        ConfigError: there is none, or it is not clear which.
    """
    found = _named(tensors, named) if named else _known(tensors, old_size=old_size)
    sizes = sorted({tensors[name].rows for name in found})
    if len(sizes) > 1:
        raise ConfigError(
            f"{_listed(tensors, found)}: have different numbers of rows; name those of the tokenizer:"
            " --tensor NAME, once for each"
        )
    rows = sizes[0]
    if rows < old_size:
        raise ConfigError(
            f"{_listed(tensors, found)}: {rows:,} rows, but --old has {old_size:,} ids; --old must be"
            " the tokenizer that the checkpoint was trained with"
        )
    if vocab_size is not None and rows != vocab_size:
        raise ConfigError(
            f"{_listed(tensors, found)}: {rows:,} rows, but config.json says vocab_size ="
            f" {vocab_size:,}; mend config.json, or name the tensors: --tensor NAME, once for each"
        )
    if not named:
        _refuse_unclear(tensors, found, old_size=old_size)
    return [name for name in tensors if name in found]


def _named(tensors: Mapping[str, TensorInfo], named: Sequence[str]) -> list[str]:
    for name in named:
        if name not in tensors:
            near = [one for one in tensors if one.endswith(name)] or sorted(
                tensors, key=lambda one: -tensors[one].rows
            )
            raise ConfigError(
                f"--tensor {name}: the checkpoint has none of that name; it has {_listed(tensors, near)}"
            )
        if not tensors[name].rows:
            raise ConfigError(f"--tensor {name}: has no rows")
    return list(dict.fromkeys(named))


def _known(tensors: Mapping[str, TensorInfo], *, old_size: int) -> list[str]:
    known = [name for name in tensors if _is_known(name) and tensors[name].rows]
    found = [name for name in known if tensors[name].rows >= old_size]
    if not found:
        largest = sorted(tensors, key=lambda name: -tensors[name].rows)
        raise ConfigError(
            f"CHECKPOINT: no embedding of {old_size:,} rows or more, one for each id of --old; it has"
            f" {_listed(tensors, known or largest) or 'no tensor'}; give the tokenizer that the model"
            " was trained with as --old, or name the tensors: --tensor NAME"
        )
    return found


def _refuse_unclear(tensors: Mapping[str, TensorInfo], found: Sequence[str], *, old_size: int) -> None:
    """Refuse what could be read in two ways."""
    rows = tensors[found[0]].rows
    way_out = "name all tensors that have a row for each id: --tensor NAME, once for each"
    others = [name for name in tensors if name not in found and rows in tensors[name].shape]
    if others:
        raise ConfigError(
            f"{_listed(tensors, others)}: as large as {_listed(tensors, found)}, but of no known name;"
            f" {way_out}"
        )
    if rows - old_size > max(_MOST_PADDING, rows // 64):
        raise ConfigError(
            f"{_listed(tensors, found)}: {rows - old_size:,} rows more than --old has ids, too many for"
            f" padding; if --old is the right tokenizer, {way_out}"
        )


def _is_known(name: str) -> bool:
    return any(name == end or name.endswith(f".{end}") for end in KNOWN)


def _listed(tensors: Mapping[str, TensorInfo], names: Sequence[str]) -> str:
    shown = [f"{name} {tensors[name].shape}" for name in names[:_SHOWN]]
    more = len(names) - len(shown)
    return ", ".join(shown) + f" and {more:,} more" * bool(more)
