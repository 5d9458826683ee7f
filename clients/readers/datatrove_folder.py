"""datatrove: DatatroveFolderDataset, as nanotron reads it."""

from collections.abc import Iterator

import numpy as np
from answers import Answer, Facts, digest, read_facts, tell
from datatrove.utils.dataset import DatatroveFolderDataset


def answers(facts: Facts) -> Iterator[Answer]:
    """Yield windows of a trainer's length, and each file as one window, documents from its index."""
    for split in facts.splits:
        folder = str(facts.folder / split)
        windows = DatatroveFolderDataset(folder, facts.seq_len, token_size=facts.id_bytes)
        ids = (windows[number]["input_ids"] for number in range(len(windows)))
        yield Answer(f"{split} windows", len(windows), None, digest(ids))
        parts, documents = [], 0
        for path in sorted((facts.folder / split).glob("*.ds")):
            tokens = path.stat().st_size // facts.id_bytes
            options = {"token_size": facts.id_bytes, "return_positions": True}
            whole = DatatroveFolderDataset(folder, tokens - 1, filename_pattern=path.name, **options)
            parts.append(np.asarray(whole[0]["input_ids"]))
            documents += int((np.asarray(whole[0]["positions"]) == 0).sum())
        yield Answer(f"{split} stream", None, documents, digest(parts))


if __name__ == "__main__":
    tell(answers(read_facts()))
