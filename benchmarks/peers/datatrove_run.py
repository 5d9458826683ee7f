"""datatrove: MinHash deduplication in four stages, then tokens, merged. One task at a time.

    datatrove_run.py '{"corpus": ..., "output": ..., "tokenizer": ..., "words": "default", ...}'

The filter hands its documents straight to the tokenizer, so no text is written in between. `words` is
"default", datatrove's own word tokenizer, or "split", which is `str.split` in its place.
"""

import json
import sys
from pathlib import Path
from typing import Any

from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.dedup import (
    MinhashDedupBuckets,
    MinhashDedupCluster,
    MinhashDedupFilter,
    MinhashDedupSignature,
)
from datatrove.pipeline.dedup.minhash import MinhashConfig
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.tokens import DocumentTokenizer, DocumentTokenizerMerger
from datatrove.utils.word_tokenizers import WordTokenizer


class SplitWords(WordTokenizer):  # type: ignore[misc]  # datatrove has no types
    """Words are what white space parts."""

    def word_tokenize(self, text: str) -> list[str]:
        """Return the words of a text."""
        return text.split()

    def sent_tokenize(self, text: str) -> list[str]:
        """Return the text: nothing here asks for sentences."""
        return [text]

    def span_tokenize(self, text: str) -> list[tuple[int, int]]:
        """Return all of the text as one span."""
        return [(0, len(text))]


def run(stage: str, steps: list[Any], output: Path, *, tasks: int = 1) -> None:
    """Run one stage, its tasks one after the other."""
    executor = LocalPipelineExecutor(
        pipeline=steps, tasks=tasks, workers=1, logging_dir=str(output / "logs" / stage)
    )
    executor.run()


def main() -> None:
    """Run all stages."""
    facts = json.loads(sys.argv[1])
    output, config = (
        Path(facts["output"]),
        MinhashConfig(
            n_grams=facts["shingle"], num_buckets=facts["bands"], hashes_per_bucket=facts["rows"]
        ),
    )
    signatures, buckets, removed, tokens = (
        str(output / name) for name in ("signatures", "buckets", "removed", "tokens")
    )
    words = {"language": SplitWords()} if facts["words"] == "split" else {}
    reader = JsonlReader(facts["corpus"])
    run("signatures", [reader, MinhashDedupSignature(signatures, config=config, **words)], output)
    run(
        "buckets",
        [MinhashDedupBuckets(signatures, buckets, config=config)],
        output,
        tasks=facts["bands"],
    )
    run("cluster", [MinhashDedupCluster(buckets, removed, config=config)], output)
    tokenizer = DocumentTokenizer(
        tokens, tokenizer_name_or_path=facts["tokenizer"], eos_token=facts["eos"], seed=facts["seed"]
    )
    run("tokens", [reader, MinhashDedupFilter(removed), tokenizer], output)
    merged = str(output / "merged")
    run("merge", [DocumentTokenizerMerger(tokens, merged, "merged", seed=facts["seed"])], output)


if __name__ == "__main__":
    main()
