"""A filter of your own: `shardmill run` calls it for each document."""

WANTED = {"en", "de", "fr", "es"}
SENTENCES = 3


def keep(text: str, columns: dict[str, object]) -> bool | str:
    """Return True to keep the document; False, or a text that says why, to drop it."""
    if columns["lang"] not in WANTED:
        return "another language"
    if text.count(". ") < SENTENCES:
        return "few sentences"
    return True
