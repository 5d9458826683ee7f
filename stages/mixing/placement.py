"""Placement: which shard a document copy goes to, where it stands in it, on which side of the split.

All are hashes of (seed, id, copy), so a document's place depends on no other document: adding files
moves nobody, as long as the number of shards stays.
"""

from pydantic import Field

from stages.config import Config
from stages.seeding import Purpose, document_hash, threshold

MAX_DOCUMENTS = 1 << 20
"""Documents in a shard: 170 bytes of memory each while it is made."""


class ValidationConfig(Config):
    """The validation split: documents held out of training and of the tokenizer's sample."""

    fraction: float = Field(0.001, ge=0.0, le=0.5)
    """Share of documents held out, whole duplicate clusters at a time."""
    max_tokens: int = Field(10_000_000, ge=1)
    """Most tokens held out; clusters beyond, in hash order, train."""


def shard_of(identity: bytes, seed: int, *, copy: int, shards: int) -> int:
    """Return the shard of a document copy, uniform in range(shards)."""
    return document_hash(identity, seed, purpose=Purpose.SHARD, copy=copy) * shards >> 64


def order_of(identity: bytes, seed: int, *, copy: int) -> int:
    """Return the hash by which document copies stand in a shard, ascending."""
    return document_hash(identity, seed, purpose=Purpose.ORDER, copy=copy)


def component_hash(identity: bytes, seed: int, *, copy: int) -> int:
    """Return the hash that gives a document copy to a component of a mixture: uniform, 64 bits."""
    return document_hash(identity, seed, purpose=Purpose.COMPONENT, copy=copy)


def validation_hash(cluster: bytes, seed: int) -> int:
    """Return the hash by which a duplicate cluster is held out; the cluster is its root's id."""
    return document_hash(cluster, seed, purpose=Purpose.VALIDATION)


def is_candidate(cluster: bytes, seed: int, *, config: ValidationConfig) -> bool:
    """Say whether a cluster may be held out."""
    return validation_hash(cluster, seed) < threshold(config.fraction)


def num_shards(kept_bytes: int, *, shard_size: int, documents: int = 0) -> int:
    """Return the number of shards: each is made from about `shard_size` of text.

    Short documents make more of them: none is to list more than about `MAX_DOCUMENTS`.
    """
    return max(1, -(-kept_bytes // shard_size), -(-documents // MAX_DOCUMENTS))
