"""Tokenizer extend: append pieces that are learned from new text, and say what became of old text.

    --text       nineteen of twenty texts  -> words -> pieces -> the file with further ids
                 one of twenty             -> tokens before and after
    --old-text   ids before and after      -> documents and tokens that changed

The file is written when all checks have passed.

What `tokenizer extend` prints: the new pieces, what they save, and what became of old text.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from pipeline.inputs.languages import bundled_files, text_files
from pipeline.planning.existing import read_tokenizer_file
from pipeline.planning.outputs import require_local
from pipeline.state.storage import replace_file
from pipeline.system.disk_faults import disk_faults
from pipeline.tools.tokenizer.extension_measures import (
    NewText,
    TokenizerExtension,
    TokenizerPair,
    count_old_words,
    measure_drift,
    measured,
    old_source,
    read_new_text,
)
from pipeline.tools.tokenizer.verify import special_roles
from stages.errors import ConfigError, VerificationError
from stages.tokenizer.codec import Tokenizer
from stages.tokenizer.existing import TokenizerKind, describe, existing_tokenizer
from stages.tokenizer.extension.extended import Extension
from stages.tokenizer.extension.kinds import extendable
from stages.tokenizer.proof import prove, untouched
from stages.tokenizer.roles import SpecialPieces, find_roles, require_roles

_ENDINGS = {TokenizerKind.SENTENCEPIECE: ".model", TokenizerKind.HUGGING_FACE: ".json"}


def extend_tokenizer(  # noqa: PLR0913  # one parameter an option
    model: Path,
    text: Sequence[Path],
    *,
    pieces: int,
    output: Path,
    languages: Sequence[str] = (),
    old_text: Sequence[Path] = (),
    max_drift: float = 0.005,
    special: Sequence[str] = (),
) -> TokenizerExtension:
    """Append pieces to a tokenizer, and write it when it has passed all checks.

    Args:
        model: a tokenizer's file, or a folder that holds one.
        text: folders and files of new text.
        pieces: how many to append.
        output: the extended tokenizer.
        languages: of the text to learn from; all if none is named.
        old_text: text whose tokens should stay; the bundled corpus if none is named.
        max_drift: share of the tokens of old text that may change.
        special: special ids that are not found by themselves, as ROLE=PIECE.

    Raises:
        ConfigError: no such file, language or kind of tokenizer, or too little text.
        DataError: texts that cannot be read.
        FormatError: a file that is no tokenizer.
        VerificationError: the extended tokenizer failed a check; it is not written.
    """
    name, written = f"MODEL {model}", f"--output {output}"
    (kind, data, _) = read_tokenizer_file(model, name, base=Path.cwd()).content
    _require_output(output, model, kind)
    opened = partial(_opened, kind=kind, special=special_roles(special), model=model)
    before = opened(data, name=name)
    tokenizer = extendable(data, kind, name=name)
    files = [file for path in text for file in text_files(path, "--text")]
    old_files = [file for path in old_text for file in text_files(path, "--old-text")]
    old_files = sorted(set(old_files)) or bundled_files("--old-text")
    new = read_new_text(files, tokenizer, languages)
    words = [*(own.words for own in new.values()), count_old_words(old_files, tokenizer, new)]
    extension = tokenizer.extend(words, pieces, max_drift=max_drift)
    _require_old_ids(data, extension.data, kind, name=written)
    both = TokenizerPair(before, opened(extension.data, name=written))
    texts = _proved_texts(both.after, extension, new)
    _prove(both.after, extension, kind, texts, name=written)
    found = measured(both, extension, new, measure_drift(old_files, both, new))
    with disk_faults(output.parent):
        output.parent.mkdir(parents=True, exist_ok=True)
        replace_file(output, extension.data)
    return {
        "format_version": 1,
        "model": str(model),
        "output": str(output),
        "max_drift": max_drift,
        "old_source": old_source(old_text),
        "proved_texts": sum(map(len, texts.values())),
        **found,
    }


def _require_output(output: Path, model: Path, kind: TokenizerKind) -> None:
    require_local(output, "--output")
    ending = _ENDINGS[kind]
    if output.suffix != ending:
        raise ConfigError(f"--output {output}: {model} is a {kind}; end the name in {ending}")
    if output.exists():
        raise ConfigError(f"--output {output}: is there already; name a file that is not")


def _opened(
    data: bytes, kind: TokenizerKind, special: SpecialPieces, *, model: Path, name: str
) -> Tokenizer:
    """Return a tokenizer with its special ids, as a run would open it."""
    roles = find_roles(describe(data, kind, name=name), special, name=model.name)
    require_roles(roles, ["eos"], who="tokenizer extend", name=model.name)
    return existing_tokenizer(data, kind, {"pad": roles.ids["eos"], **roles.ids}, name=name)


def _require_old_ids(old: bytes, new: bytes, kind: TokenizerKind, *, name: str) -> None:
    """Refuse an extended tokenizer in which an old id is not what it was."""
    before, after = (describe(data, kind, name=name) for data in (old, new))
    moved = [p for p, number in before.pieces.items() if after.pieces.get(p) != number]
    same = before.controls == after.controls and before.marks == after.marks
    if moved or not same or before.declared != after.declared:
        raise VerificationError(
            f"{name}: old ids changed, first that of {next(iter(moved), 'a mark')!r}"
        )


def _proved_texts(
    tokenizer: Tokenizer, extension: Extension, new: Mapping[str, NewText]
) -> dict[str, list[str]]:
    """Return texts to prove the tokenizer by, in groups."""
    special = tokenizer.codec.pieces(sorted(set(tokenizer.special_ids.values()) - {tokenizer.unk}))
    texts = [text for piece in special for text in (piece, f"a {piece} b", piece * 2)]
    spelled = tokenizer.codec.piece_bytes()[-len(extension.pieces) :]
    return {
        "held out": [text for own in new.values() for text in own.held_out],
        "special": texts,
        "new pieces": [piece.decode(errors="ignore") for piece in spelled],
    }


def _prove(
    tokenizer: Tokenizer,
    extension: Extension,
    kind: TokenizerKind,
    texts: Mapping[str, Sequence[str]],
    *,
    name: str,
) -> None:
    """Refuse an extended tokenizer that `tokenizer verify` would fail."""
    proof = prove(tokenizer.unguarded(), texts, library=untouched(extension.data, kind))
    for check, count in proof.failed.items():
        first = proof.checks[check].first[0]
        raise VerificationError(
            f"{name}: not so of {count:,} texts: {check}; first {first[:60]!r}; nothing is written"
        )
