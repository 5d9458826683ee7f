"""datatrove: what its PIIFormatter replaces in some documents, and the CPU seconds that it takes.

    datatrove_pii.py DOCUMENTS.jsonl OUTPUT.json

It writes the texts with [EMAIL] and [IP] in place of its own replacements, and where these stood: the
kind, the first character and the one after the last.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from datatrove.pipeline.formatters import PIIFormatter

Span = tuple[str, int, int]


def spans_of(one: Any, text: str) -> list[Span]:
    """Return what a formatter replaces; addresses inside of an e-mail address are replaced with it."""
    emails = [("email", *found.span()) for found in one.emails_replacer.regex.finditer(text)]
    addresses = [
        ("ip", *found.span())
        for found in one.ip_replacer.regex.finditer(text)
        if one.ip_replacer.validator(found[0])
    ]
    left = [ip for ip in addresses if not any(first < ip[2] and ip[1] < end for _, first, end in emails)]
    return sorted([*emails, *left], key=lambda span: span[1])


def main() -> None:
    """Ask it of every document."""
    documents, output = map(Path, sys.argv[1:])
    texts = [json.loads(line)["text"] for line in documents.open(encoding="utf-8")]
    one = PIIFormatter(email_replacement="[EMAIL]", ip_replacement="[IP]")
    for text in texts[:20]:
        one.format(text)
    before = time.process_time()
    left = [one.format(text) for text in texts]
    seconds = time.process_time() - before
    found = {"texts": left, "spans": [spans_of(one, text) for text in texts], "cpu_seconds": seconds}
    output.write_text(json.dumps(found) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
