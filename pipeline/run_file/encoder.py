"""Encoder: what embeds texts for semantic deduplication, looked for when the run is planned."""

from pipeline.run_file.config import RunFile
from stages.dedup.encoders import require_encoder


def require_semantic_encoder(file: RunFile) -> None:
    """Refuse a run whose encoder is not installed here.

    Raises:
        ConfigError: it is not.
    """
    if file.dedup.semantic is not None:
        require_encoder(file.dedup.semantic.encoder)
