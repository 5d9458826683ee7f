"""Faults of whole files that only reading their content shows."""


class ContentError(ValueError):
    """A file holds something else than its reader and the settings of its source say.

    Args:
        message: what it holds, as a sentence without its subject, or about "its ...".
        setting: of the source, that may be wrong.
    """

    def __init__(self, message: str, setting: str) -> None:
        super().__init__(message)
        self.setting = setting
