"""Signatures: those of some documents again, from their texts."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.engine.tasks import Workspace
from pipeline.steps.again.follow import MADE_AGAIN
from pipeline.steps.again.groups import DrawnUnit, drawn_groups
from pipeline.steps.findings import CheckRecord, LookedAt
from pipeline.steps.recount import Found, recounted
from stages.columns import utf8_of
from stages.dedup.compared import compared_signatures
from stages.dedup.lsh import MinHashConfig
from stages.findings import Finding
from stages.store.arrays import open_array


@dataclass(frozen=True)
class SignedUnit:
    """A unit of which some row groups are signed again."""

    drawn: DrawnUnit
    minhash: MinHashConfig

    @property
    def signatures(self) -> str:
        """The key of its signatures."""
        return f"ingest/{self.drawn.unit.name}/signatures.npy"


def sign_again(workspace: Workspace, work: SignedUnit) -> CheckRecord:
    """Sign documents of a unit again, and say of which the signature is another."""
    signed: list[int] = []
    found = recounted((work.signatures, lambda: _signed(workspace, work, signed)))
    looked = LookedAt(what="signatures", unit="documents", looked=sum(signed), of=sum(signed))
    return found.model_copy(update={"looked": (looked,)})


def _signed(workspace: Workspace, work: SignedUnit, signed: list[int]) -> Found:
    """Sign drawn row groups again; their numbers of documents are added as they come."""
    stored: Any = open_array(workspace.path(work.signatures), dtype="<u4")
    for first, texts in drawn_groups(workspace, work.drawn):
        data, offsets = utf8_of(texts)
        again = compared_signatures(data, offsets, work.minhash, num_perm=work.minhash.num_perm)
        own = stored[:, first : first + len(texts)].T
        for row in np.flatnonzero((own != again).any(axis=1))[:1].tolist():
            lane = int(np.flatnonzero(own[row] != again[row])[0])
            message = (
                f"document {first + row:,}, minimum {lane}: is {own[row][lane]}, and from its text it is"
                f" {again[row][lane]}"
            )
            yield work.signatures, Finding(MADE_AGAIN, message)
        signed.append(len(texts))
