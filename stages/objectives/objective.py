"""The base of every objective's config."""

from stages.config import Config


class Objective(Config):
    """What is learned from rows: the settings of one kind of objective."""

    kind: str
    """Names the objective."""
