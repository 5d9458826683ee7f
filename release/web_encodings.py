"""Write stages/reading/web_encodings.json: where Python's codecs and the Encoding Standard differ.

`web_encodings.py WHOLE.json`, with what `web_encodings.mjs` writes. The file has the labels of each
encoding, and by encoding the bytes that Python's codec reads otherwise or not at all.
"""

import json
import sys
from pathlib import Path

from stages.reading.web_encodings import CODECS, DATA


def differences(name: str, whole: dict[str, str]) -> dict[str, str | None]:
    """Return by bytes, in hexadecimal digits, what the standard has and Python's codec has not."""
    found: dict[str, str | None] = {}
    for digits, text in whole.items():
        try:
            own = bytes.fromhex(digits).decode(CODECS[name])
        except UnicodeDecodeError:
            own = None
        if own != text:
            found[digits] = text
    for byte in range(0x80, 0x100):  # what the codec alone reads
        digits = f"{byte:02x}"
        try:
            bytes([byte]).decode(CODECS[name])
        except UnicodeDecodeError:
            continue
        if digits not in whole:
            found[digits] = None
    return dict(sorted(found.items()))


def main(place: Path) -> None:
    """Write the file."""
    whole = json.loads(place.read_text("utf-8"))
    labels = {label: name for name, more in whole["labels"].items() for label in (name, *more)}
    known = {name: differences(name, whole["characters"][name]) for name in CODECS}
    content = {
        "labels": dict(sorted(labels.items())),
        "differences": {name: found for name, found in sorted(known.items()) if found},
    }
    DATA.write_text(json.dumps(content, ensure_ascii=True, indent=0, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
