"""Names that do not change: document ids and content digests.

A document is known by where it stands: (source name, path relative to the source's root, position).
The position is the byte offset of its line or text in the decompressed file, or its row in a table, so
that adding files or slicing them into other units renames nobody.
"""

import xxhash

ID_BYTES = 16
DIGEST_BYTES = 16


def document_id(source: str, path: str, position: int) -> bytes:
    """Return the 128-bit id of a document: XXH3-128 of its canonical place.

    ("udhr", "en.jsonl", 0) -> 16 bytes, the same in every run and folder

    Args:
        source: the source's name in the run file.
        path: POSIX path relative to the source's root.
        position: byte offset of the record in the decompressed file, or its row, from 0, in a table.
    """
    place = f"{source}\0{path}\0{position}".encode()
    return xxhash.xxh3_128_digest(place)


def content_digest(text: str) -> bytes:
    """Return the 128-bit digest by which exact duplicates are found and decoded rows are checked."""
    return utf8_digest(text.encode())


def utf8_digest(data: bytes) -> bytes:
    """Return the content digest of a text in UTF-8."""
    return xxhash.xxh3_128_digest(data)
