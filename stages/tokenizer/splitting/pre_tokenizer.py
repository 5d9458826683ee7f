r"""Pre-tokenizers of a tokenizer.json that are run here: byte-level ones that cut by expressions.

    GPT-2     ByteLevel                                       its own expression
    Llama 3   Split(... \p{N}{1,3} ...), ByteLevel
    DeepSeek  Split(\p{N}{1,3}), Split(...), Split(...), ByteLevel

Source: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", and its `encoder.py`
for the expression of GPT-2.
"""

from collections.abc import Iterator, Mapping

from stages.tokenizer.splitting.automaton import Splits, splits_of
from stages.tokenizer.splitting.characters import NUMERIC
from stages.tokenizer.splitting.pattern import MANY, Alternation, Characters, Repeat, parse

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def byte_level_splits(part: object) -> Splits | None:
    """Return where a pre-tokenizer cuts texts, before their bytes become pieces; None if not known here.

    Args:
        part: `pre_tokenizer` of the file.
    """
    try:
        return splits_of(list(_trees(part)))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _trees(part: object) -> Iterator[Alternation]:
    parts = list(_flat(part))
    for number, item in enumerate(parts):
        match item:
            case {"type": "ByteLevel", "add_prefix_space": False} if number == len(parts) - 1:
                if item.get("use_regex", True):
                    yield parse(_GPT2)
                return
            case {"type": "Split", "behavior": "Isolated", "invert": False, "pattern": how}:
                yield _pattern(how)
            case {"type": "Digits", "individual_digits": bool(single)}:
                yield Alternation(
                    ((Repeat(Characters(frozenset([NUMERIC])), 1, 1 if single else MANY),),)
                )
            case _:
                raise ValueError(item)
    raise ValueError(part)


def _pattern(pattern: object) -> Alternation:
    """Return the tree of what a `Split` cuts out: an expression, or some characters as they are."""
    match pattern:
        case {"Regex": str(expression)}:
            return parse(expression)
        case {"String": str(text)}:
            return Alternation((tuple(Characters(frozenset([character])) for character in text),))
        case _:
            raise ValueError(pattern)


def _flat(part: object) -> Iterator[Mapping[str, object]]:
    match part:
        case {"type": "Sequence", "pretokenizers": list(parts)}:
            for inner in parts:
                yield from _flat(inner)
        case dict():
            yield part
        case _:
            raise ValueError(part)
