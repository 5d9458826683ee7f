"""What is made before the contestants compete: their corpus, their tokenizer, their environments."""

import hashlib
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import islice
from pathlib import Path

from contest_material import read_documents
from contestants import RUN_FILE, Assignment, Contestant, Side
from converted_tokenizer import convert_model, differing
from corpus_slice import CorpusSlice, write_slice
from peer_environments import (
    PEER_ENVIRONMENTS,
    PeerNotInstalledError,
    installed_versions,
    make_peer_environment,
)
from run_processes import corpus_override, run_command
from standings import Standing

from stages.dedup.lsh import band_shape

SHINGLE, NUM_PERM, THRESHOLD = 5, 128, 0.8
"""Words of a shingle, entries of a signature, least similarity: the same for all that ask for them."""
FIRST_DOCUMENTS = 200
"""Documents of the start-up and of the turn that is not measured."""
COMPARED_DOCUMENTS = 500
"""Most documents on which the converted tokenizer is compared with the model."""
OUR_PACKAGES = ("shardmill", "sentencepiece", "ray", "numba")
LIMIT_PACKAGES = ("sentencepiece", "orjson", "zstandard")


@dataclass(frozen=True)
class Environments:
    """The environments that were needed, by name: pythons and versions, or why there is none."""

    pythons: dict[str, Path]
    versions: dict[str, dict[str, str]]
    failures: dict[str, str]


@dataclass(frozen=True)
class Preparation:
    """All that is made."""

    whole: CorpusSlice
    first: CorpusSlice
    model: Path
    converted: Path
    compared: int
    differing: int
    """Texts of those compared whose ids in the converted tokenizer are not the model's."""
    environments: Environments

    def slice_of(self, contestant: Contestant) -> CorpusSlice:
        """Return the documents that a contestant is measured on."""
        return self.first if contestant.side == Side.START_UP else self.whole

    def assignment(self, corpus: CorpusSlice, *, shardmill: str) -> Assignment:
        """Return what contestants are given with some documents."""
        bands, rows = band_shape(THRESHOLD, NUM_PERM)
        return Assignment(
            corpus=corpus.folder,
            model=self.model,
            converted=self.converted,
            shardmill=shardmill,
            python=sys.executable,
            pythons=self.environments.pythons,
            shingle=SHINGLE,
            bands=bands,
            rows=rows,
            num_perm=NUM_PERM,
            threshold=THRESHOLD,
        )

    def standing(self, contestant: Contestant) -> Standing:
        """Return the standing of a contestant before its turns, failed if it could not be installed."""
        made = self.environments
        if contestant.environments:
            names = [environment.name for environment in contestant.environments]
            versions = {k: v for name in names for k, v in made.versions.get(name, {}).items()}
        else:
            names = []
            packages = LIMIT_PACKAGES if contestant.side == Side.LIMIT else OUR_PACKAGES
            versions = {name: version(name) for name in packages}
        error = "; ".join(made.failures[name] for name in names if name in made.failures)
        size = self.slice_of(contestant).text_bytes
        return Standing(contestant.name, contestant.side, versions, size, error=error or None)


def prepare(
    paths: Sequence[Path],
    cache: Path,
    contestants: Iterable[Contestant],
    *,
    max_bytes: int | None,
    model: Path | None,
    vocab_size: int,
    shardmill: str,
) -> Preparation:
    """Make what the contestants need.

    Args:
        paths: files of the corpus.
        cache: folder of all that is made; models and environments in it are used again.
        contestants: those that take part.
        max_bytes: of texts, from the beginning of the corpus; all by default.
        model: a SentencePiece BPE model; one is trained by default.
        vocab_size: ids of a model that is trained.
        shardmill: command line of this program.

    Raises:
        ValueError: there is no document, or the model is no BPE model.
    """
    whole = write_slice(paths, cache / "corpus", max_bytes=max_bytes)
    if not whole.documents:
        raise ValueError(f"{', '.join(map(str, paths))}: no document; each line must have a field text")
    documents = min(FIRST_DOCUMENTS, whole.documents)
    first = write_slice(paths, cache / "first", max_bytes=None, max_documents=documents)
    if model is None:
        model = trained_model(whole, cache, shardmill=shardmill, vocab_size=vocab_size)
    converted = cache / "tokenizer.json"
    convert_model(model, converted)
    texts = (d.text for path in sorted(whole.folder.iterdir()) for d in read_documents(path))
    compared, unequal = differing(islice(texts, COMPARED_DOCUMENTS), model, converted)
    environments = make_environments(contestants, cache)
    return Preparation(whole, first, model, converted, compared, unequal, environments)


def trained_model(corpus: CorpusSlice, cache: Path, *, shardmill: str, vocab_size: int) -> Path:
    """Return a BPE model trained on a slice by this program, unless it was trained before."""
    digest = hashlib.sha256(str(vocab_size).encode())
    for path in sorted(corpus.folder.iterdir()):
        digest.update(path.read_bytes())
    output = cache / "models" / digest.hexdigest()[:16]
    overrides = [
        corpus_override(str(corpus.folder / "*.jsonl.zst")),
        f"tokenizer.train.vocab_size={vocab_size}",
    ]
    words = run_command(shardmill, RUN_FILE, output, workers=0, overrides=overrides)
    model = output / "tokenizer" / "tokenizer.model"
    if not model.exists():
        subprocess.run([*words, "--until", "tokenizer"], check=True, stdout=sys.stderr)  # noqa: S603
    return model


def make_environments(contestants: Iterable[Contestant], cache: Path) -> Environments:
    """Return the environments that are needed, made unless they are there."""
    needed = {environment.name for one in contestants for environment in one.environments}
    pythons: dict[str, Path] = {}
    versions: dict[str, dict[str, str]] = {}
    failures: dict[str, str] = {}
    for environment in PEER_ENVIRONMENTS:
        if environment.name in needed:
            print(f"environment of {environment.name}", file=sys.stderr, flush=True)
            try:
                python = make_peer_environment(cache / "environments", environment)
            except PeerNotInstalledError as error:
                failures[environment.name] = f"could not be installed: {error}"
                continue
            pythons[environment.name] = python
            versions[environment.name] = installed_versions(python, environment)
    return Environments(pythons, versions, failures)
