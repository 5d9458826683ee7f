"""Personal data: what our filter replaces beside datatrove's PIIFormatter, e-mail and IP addresses.

Both see the same texts. What one replaces is the same as what the other does if it is of the same kind
and stands at the same place; if they only overlap, it counts as different.
"""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stages.filtering.chain import FilterChain
from stages.filtering.filter import Document
from stages.filtering.pii import PersonalData
from stages.filtering.pii_addresses import find_addresses
from stages.filtering.pii_emails import find_emails

KINDS = ("email", "ip")
Span = tuple[str, int, int]
"""The kind, the first character and the one after the last."""
_SHOWN = 8
_AROUND = 12


@dataclass(frozen=True)
class PersonalDataCompared:
    """Both on the same documents."""

    documents: int
    same_texts: float
    """Share of documents that both leave with the same text."""
    both: dict[str, int]
    """By kind."""
    ours_alone: dict[str, int]
    theirs_alone: dict[str, int]
    ours: float
    """MB a CPU second."""
    theirs: float


def our_texts(texts: Sequence[str]) -> tuple[list[str], float]:
    """Return what our filter leaves of texts, and the CPU seconds that it took."""
    chain = FilterChain([PersonalData(find=KINDS)], "any")
    documents = [Document(text.encode(), len(text)) for text in texts]
    for document in documents[:20]:
        chain.judge(document)
    before = time.process_time()
    found = [chain.judge(document) for document in documents]
    seconds = time.process_time() - before
    return [one.document.text.decode() for one in found], seconds


def our_spans(text: str) -> list[Span]:
    """Return what our filter replaces in a text; an address inside of an e-mail address goes with it."""
    emails = [("email", *span) for span in find_emails(text)]
    addresses = [("ip", *span) for span in find_addresses(text)]
    left = [ip for ip in addresses if not any(first < ip[2] and ip[1] < end for _, first, end in emails)]
    return sorted([*emails, *left], key=lambda span: span[1])


def compare(
    texts: Sequence[str],
    left: Sequence[str],
    spans: Sequence[Sequence[Span]],
    *,
    ours: tuple[Sequence[str], float],
    seconds: float,
) -> tuple[PersonalDataCompared, list[str]]:
    """Return the figures, and what each one alone replaces, the first of each kind.

    Args:
        texts: of the documents.
        left: by datatrove.
        spans: that it replaced.
        ours: the texts that our filter left, and its CPU seconds.
        seconds: of datatrove.
    """
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    both, mine, other = Counter[str](), Counter[str](), Counter[str]()
    examples: list[str] = []
    for text, theirs in zip(texts, spans, strict=True):
        found, known = set(our_spans(text)), {(kind, first, end) for kind, first, end in theirs}
        both.update(_kinds(found & known))
        mine.update(_kinds(found - known))
        other.update(_kinds(known - found))
        examples += [_shown("ours alone", text, span) for span in sorted(found - known)[:1]]
        examples += [_shown("datatrove alone", text, span) for span in sorted(known - found)[:1]]
    compared = PersonalDataCompared(
        documents=len(texts),
        same_texts=sum(a == b for a, b in zip(ours[0], left, strict=True)) / len(texts),
        both=dict(both),
        ours_alone=dict(mine),
        theirs_alone=dict(other),
        ours=megabytes / ours[1],
        theirs=megabytes / seconds,
    )
    return compared, [
        line
        for begin in ("ours", "datatrove")
        for line in [one for one in examples if one.startswith(begin)][:_SHOWN]
    ]


def personal_data_table(compared: PersonalDataCompared) -> str:
    """Return the figures as Markdown."""
    heads = ["", "both replace", "ours alone", "datatrove alone"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for kind in KINDS:
        counts = (compared.both, compared.ours_alone, compared.theirs_alone)
        lines.append(f"| {kind} | {' | '.join(f'{count.get(kind, 0):,}' for count in counts)} |")
    same = f"same text: {compared.same_texts:.2%} of {compared.documents:,} documents"
    times = compared.ours / compared.theirs
    speed = f"MB a CPU second: {compared.ours:.1f}, datatrove {compared.theirs:.1f}, {times:.1f} times"
    return "\n".join([*lines, "", f"{same}; {speed}"])


def _kinds(spans: Iterable[Span]) -> list[str]:
    return [kind for kind, _, _ in spans]


def _shown(who: str, text: str, span: Span) -> str:
    kind, first, end = span
    around = (text[max(0, first - _AROUND) : first], text[first:end], text[end : end + _AROUND])
    return f"{who}, {kind}: " + "{!r} [{!r}] {!r}".format(*around)
