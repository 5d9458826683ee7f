"""What the isolation check promises: it is 0 exactly where documents are hidden from each other.

Segments that run over the end of a document are found, since ends are read off EOS.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from stages.verify.isolation import IsolationResult, check_isolation
from stages.verify.rows import LabelledRows
from tests.stages.verify.languages import BOTH_WAYS, NUM_IDS, language, positions_of, tiny

EOS = 2
KEPT = np.arange(NUM_IDS - 1)
PREFIX = "prefix_within_document"
ATTENTIONS = ["causal_within_document", PREFIX, BOTH_WAYS]


def packed(attention: str) -> LabelledRows:
    """Documents of 24 tokens, the last of each an EOS."""
    rows = language(6, seed=1)
    tokens = np.where(rows.input_ids == EOS, 5, rows.input_ids)
    tokens[:, 23::24] = EOS
    prefix = np.where(np.arange(tokens.shape[1]) % 24 < 9, 1, np.zeros_like(tokens))
    in_prefix = prefix if attention == PREFIX else None
    return replace(rows, input_ids=tokens, labels=tokens, attention=attention, in_prefix=in_prefix)


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_documents_of_a_row_do_not_move_each_others_logits(attention: str) -> None:
    model = tiny(NUM_IDS, attention=attention)
    result = check_isolation(model, packed(attention), kept=KEPT, eos=EOS)
    assert result is not None
    assert result.ends == 18
    assert result.max_change == 0.0
    assert result.max_change_without > 0.1
    assert all(gate.passed for gate in result.gates)


@pytest.mark.parametrize("moved", [1, -1])
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_segments_that_begin_elsewhere_than_documents_are_found(attention: str, moved: int) -> None:
    rows = packed(attention)
    segments = np.roll(rows.segment_ids, moved, axis=1)
    segments[:, :1], segments[:, -1:] = 0, 3
    wrong = replace(rows, segment_ids=segments, position_ids=positions_of(segments))
    result = check_isolation(tiny(NUM_IDS, attention=attention), wrong, kept=KEPT, eos=EOS)
    assert result is not None
    assert result.max_change > 0.0
    assert not result.gates[0].passed


def test_rows_read_as_one_text_and_rows_of_one_document_have_nothing_to_isolate() -> None:
    model = tiny(NUM_IDS)
    rows = packed("causal_within_document")
    assert check_isolation(model, replace(rows, attention="prefix"), kept=KEPT, eos=EOS) is None
    alone = replace(rows, input_ids=np.full_like(rows.input_ids, 7))
    assert check_isolation(model, alone, kept=KEPT, eos=EOS) is None


@pytest.mark.parametrize("step", [1, -1])
def test_a_model_that_looks_one_token_over_the_end_is_found_whichever_way_it_looks(
    step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny(NUM_IDS, attention=BOTH_WAYS)
    own = model.logits

    def leaking(hidden: Tensor) -> Tensor:
        logits = own(hidden)
        beside = torch.zeros_like(logits)
        if step == 1:
            beside[:, :-1] = logits[:, 1:]
        else:
            beside[:, 1:] = logits[:, :-1]
        return logits + 0.01 * beside

    monkeypatch.setattr(model, "logits", leaking)
    result = check_isolation(model, packed(BOTH_WAYS), kept=KEPT, eos=EOS)
    assert result is not None
    assert result.max_change > 0.0
    assert not result.gates[0].passed


def test_a_model_that_reads_nothing_shows_nothing() -> None:
    assert [gate.passed for gate in IsolationResult(9, 0.0, 0.0).gates] == [True, False]
    assert [gate.passed for gate in IsolationResult(9, 0.0, 0.1).gates] == [True, True]
    assert [gate.passed for gate in IsolationResult(9, 1e-9, 0.1).gates] == [False, True]


def test_an_eos_inside_of_a_document_is_no_end_of_one() -> None:
    rows = packed("causal_within_document")
    tokens = rows.input_ids.copy()
    tokens[:, 9::24] = EOS
    answered = replace(rows, input_ids=tokens, labels=tokens)
    model = tiny(NUM_IDS, attention=rows.attention)
    strict, inside = (
        check_isolation(model, answered, kept=KEPT, eos=EOS, inside=flag) for flag in (False, True)
    )
    assert strict is not None
    assert inside is not None
    assert (inside.ends, inside.max_change) == (18, 0.0)
    assert strict.max_change > 0.0
