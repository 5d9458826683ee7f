"""Parallel text that parity-aware BPE is balanced by: a folder of the run file, or the declarations.

It is read when the run is planned, so that a fault stops it before hours of work, and again when the
tokenizer is trained; then its digest must be the same.
"""

from itertools import accumulate
from pathlib import Path

import xxhash

from pipeline.inputs.languages import BUNDLED, bundled_declarations, parallel_lines
from pipeline.run_file.config import RunFile
from stages.config import canonical_json
from stages.errors import ConfigError, DataError
from stages.tokenizer.parity import parallel_texts
from stages.tokenizer.parity_training import require_parity_trainer
from stages.tokenizer.train_config import ParityBalance, TrainConfig

MOST_BYTES = 256 << 10
"""Of a language: sentences are taken from the first on until one language has so many. Each merge looks
through all words of them."""
_KEY = "tokenizer.train.parity"
_TEXTS = f"{_KEY}.texts ="


def resolve_balance(file: RunFile, base: Path) -> RunFile:
    """Return a run that knows where the text is that its tokenizer is balanced by, and its digest.

    Args:
        file: the run.
        base: folder that its paths are relative to.

    Raises:
        ConfigError: there is no such text, or the installed library cannot train by it.
        DataError: it cannot be read, or is not parallel.
    """
    train = file.tokenizer.train
    if file.tokenizer.path is not None or not train.is_balanced:
        return file
    require_parity_trainer()
    wanted = train.parity
    placed = wanted.texts and str((base / wanted.texts).absolute())
    digest = digest_of(read_balance(wanted.model_copy(update={"texts": placed})))
    if wanted.digest not in (None, digest):
        raise ConfigError(
            f"{_KEY}.digest = {wanted.digest!r}: the texts have {digest!r}; set texts to those that are"
            " meant, or leave digest out"
        )
    parity = wanted.model_copy(update={"texts": placed, "digest": digest})
    section = file.tokenizer.model_copy(update={"train": train.model_copy(update={"parity": parity})})
    return file.model_copy(update={"tokenizer": section})


def read_balance(balance: ParityBalance) -> dict[str, list[str]]:
    """Return the sentences of each language, from the first on, up to `MOST_BYTES` of any language.

    Raises:
        ConfigError: there is no folder, or it has fewer than two languages.
        DataError: the files cannot be read, or are not parallel.
    """
    folder = balance.texts
    lines = bundled_declarations() if folder is None else parallel_lines(Path(folder), name=_TEXTS)
    found = parallel_texts(lines, name=BUNDLED if folder is None else f"{_TEXTS} {folder}")
    texts = {language: list(sentences) for language, sentences in sorted(found.texts.items())}
    count = min(
        sum(size <= MOST_BYTES for size in accumulate(len(text.encode()) for text in sentences))
        for sentences in texts.values()
    )
    return {language: sentences[: max(count, 1)] for language, sentences in texts.items()}


def balance_of(config: TrainConfig) -> dict[str, list[str]]:
    """Return the texts that a training balances languages by; none if it balances none.

    Raises:
        DataError: they are others than when the run was planned.
    """
    if not config.is_balanced:
        return {}
    texts = read_balance(config.parity)
    if config.parity.digest not in (None, digest_of(texts)):
        raise DataError(f"{_TEXTS} {config.parity.texts}: changed since the run was planned; run again")
    return texts


def digest_of(texts: dict[str, list[str]]) -> str:
    """Return the XXH3-128 of texts by language."""
    return xxhash.xxh3_128_hexdigest(canonical_json(texts))
