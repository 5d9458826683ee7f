"""Notes of a forecast: what a sample cannot tell, and why the run itself may stop."""

from collections.abc import Iterator

from pipeline.run_file.config import RunFile
from pipeline.steps.ingest.unreadable import MIN_RECORDS
from pipeline.tools.forecast.sample import InputSample

BYTES_A_PIECE = 128
"""Text that is taken for each piece of a trained vocabulary: of less, so many may not be found."""
_MORE = 1.5
"""Times the share that was asked for: of more it is said why so much is read."""
_FEW = 0.5
"""Documents of a source that would stay: of fewer, the one that is used counts for too many."""


def sample_notes(sample: InputSample, run: RunFile, *, share: float) -> list[str]:
    """Return what the sample cannot tell, and whether the run would stop at what was read.

    Args:
        sample: what was drawn.
        run: what it is of.
        share: of the bytes of the inputs that was asked for.
    """
    return [
        "tokens are an upper bound: only duplicates within the sample are taken off",
        "the learning check is not run on the sample, because it takes minutes; its memory is counted",
        "memory is for one node, if all its workers need the most memory at the same time",
        *_read_notes(sample, share),
        *_source_notes(sample),
        *_unreadable_notes(sample, run.ingest.max_bad_fraction),
    ]


def _read_notes(sample: InputSample, share: float) -> Iterator[str]:
    if sample.read < sample.stored:
        yield (
            f"{sample.opened:,} of {sample.files:,} files are read, some records of each:"
            " other files, or what comes later, may have other languages, or longer or shorter documents"
        )
    read, taken = sample.read / sample.stored, sample.taken / sample.stored
    if read > _MORE * share:
        yield (
            f"{read:.2%} of the bytes are read, more than --sample {share}: of each source at least"
            " one file is read, and of a file at least 1 MiB"
        )
    if read > _MORE * taken:
        yield (
            f"of the {read:.2%} of the bytes that are read, documents for {taken:.2%} are used, so that"
            " all sources and files count alike; a larger --sample uses more"
        )


def _source_notes(sample: InputSample) -> Iterator[str]:
    for part in sample.parts:
        if not part.documents:
            why = "all of it was read" if part.whole else "a larger --sample may find one"
            yield f"no document was drawn of source {part.name}: {why}"
        elif part.expected < _FEW:
            yield (
                f"source {part.name} is too small for this sample: one document of it is used, so"
                f" what is counted of it is {1 / part.expected:,.0f} times too much; a larger --sample"
                " says more"
            )


def _unreadable_notes(sample: InputSample, bound: float) -> Iterator[str]:
    """Say that the run would stop: at all records, or before that at those of the first sources."""
    read = bad = 0.0
    for part in sample.parts:
        read, bad = read + part.documents + part.unreadable, bad + part.unreadable
        last = part is sample.parts[-1]
        if bad > bound * read and (last or read * sample.times >= MIN_RECORDS):
            of = "" if last else f" up to those of source {part.name}, in the order of names,"
            yield (
                f"the run would stop: {bad / read:.2%} of the records{of} are unreadable in the sample,"
                f" more than ingest.max_bad_fraction = {bound}; repair the files, check the source's"
                " text_column, or set ingest.max_bad_fraction higher"
            )
            return


def vocabulary_note(
    sample: InputSample, run: RunFile, *, pieces: int, most: int | None, text: int
) -> str:
    """Say that a sample was too small for the vocabulary that is asked for, and what the run may do.

    Args:
        sample: what was drawn.
        run: what it is of.
        pieces: that the sample's tokenizer has.
        most: that its text gives, if that is known.
        text: bytes that the run keeps, about.
    """
    wanted = run.tokenizer.train.vocab_size
    said = (
        f"the sample is too small to train {wanted:,} pieces: its tokenizer has {pieces:,}, so there"
        " will be fewer tokens; a larger --sample says more"
    )
    trained, enough = min(text, int(run.tokenizer.train.sample_size)), wanted * BYTES_A_PIECE
    if most is not None and wanted > most * sample.times:
        said += (
            f". The run would be refused: the sample's text gives at most {most:,} pieces, so all of it"
            f" gives no more than about {most * sample.times:,.0f}; lower tokenizer.train.vocab_size"
        )
    elif trained < enough:
        said += (
            f". The run may be refused once all is read: it trains on about {trained:,} bytes of text,"
            f" and less than {enough:,} may not give so many pieces; --sample 1 tells, or lower"
            " tokenizer.train.vocab_size"
        )
    return said
