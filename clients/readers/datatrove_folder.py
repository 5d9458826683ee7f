"""datatrove: DatatroveFolderDataset, as nanotron reads it."""

from collections.abc import Iterator

import numpy as np
from answers import Answer, Facts, digest, read_facts, stream_answer, tell
from datatrove.utils.dataset import DatatroveFolderDataset


def answers(facts: Facts) -> Iterator[Answer]:
    """Yield windows of a trainer's length, and each file as one window, documents from its index."""
    for split in facts.splits:
        folder = str(facts.folder / split)
        windows = DatatroveFolderDataset(folder, facts.seq_len, token_size=facts.id_bytes)
        ids = (windows[number]["input_ids"] for number in range(len(windows)))
        yield Answer(f"{split} windows", len(windows), None, digest(ids))
        parts = []
        lengths: list[int] = []
        for path in sorted((facts.folder / split).glob("*.ds")):
            tokens = path.stat().st_size // facts.id_bytes
            options = {"token_size": facts.id_bytes, "return_positions": True}
            whole = DatatroveFolderDataset(folder, tokens - 1, filename_pattern=path.name, **options)
            parts.append(np.asarray(whole[0]["input_ids"]))
            starts = np.flatnonzero(np.asarray(whole[0]["positions"]) == 0)
            lengths.extend(np.diff(starts, append=tokens))
        yield stream_answer(split, parts, lengths)


if __name__ == "__main__":
    tell(answers(read_facts()))
