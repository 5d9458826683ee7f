"""Datasets of every objective and every form of it, for one run that makes all of them."""

from typing import Any

from tests.material.every_kind import Content, with_every_kind

_FORMS: dict[str, dict[str, Any]] = {
    "whole-word": {"kind": "mlm", "selection": "whole_word"},
    "ngram": {"kind": "mlm", "selection": "ngram"},
    "electra": {"kind": "electra"},
    "unigram": {"kind": "electra", "generator": "unigram", "selection": "exact"},
    "fim": {"kind": "fim", "fim_rate": 0.7},
    "fim-middle": {"kind": "fim", "loss": "middle"},
    "prefix": {"kind": "prefix_lm"},
    "seq2seq": {"kind": "prefix_lm", "architecture": "encoder_decoder", "pack_rows": True},
    "ul2": {"kind": "ul2"},
    "ul2r-packed": {"kind": "ul2", "preset": "ul2r", "pack_rows": True},
    "mixed": {
        "kind": "mixture",
        "components": [
            {"weight": 2, "objective": {"kind": "bart"}},
            {"objective": {"kind": "span_corruption", "noise_density": 0.5}},
            {"objective": {"kind": "prefix_lm", "architecture": "encoder_decoder"}},
        ],
    },
    "masks": {
        "kind": "mixture",
        "components": [
            {"objective": {"kind": "mlm", "mask_probability": 0.4}},
            {"objective": {"kind": "mlm", "selection": "whole_word"}},
        ],
    },
    "bart": {"kind": "bart", "delete_ratio": 0.1, "rotate_probability": 0.5},
    "nsp": {"kind": "nsp", "mask": {"selection": "whole_word"}},
    "sop": {"kind": "sop"},
    "text-fim": {
        "kind": "fim",
        "level": "character",
        "fim_rate": 0.8,
        "sources": {"mixed": {"fim_spm_rate": 0.2}},
    },
    "document-fim": {
        "kind": "fim",
        "level": "character",
        "unit": "document",
        "document_fraction": 0.5,
        "fim_rate": 1.0,
    },
    "sentences": {"kind": "bart", "permute_probability": 0.8},
    "packed-sentences": {
        "kind": "bart",
        "mask_ratio": 0.0,
        "permute_probability": 1.0,
        "pack_rows": True,
    },
    "model": {
        "kind": "electra",
        "generator": "model",
        "model": "tests.laws.tiny_generator:make_generator",
    },
    "simcse": {"kind": "simcse"},
    "crops": {"kind": "simcse", "views": "cropped"},
    "triples": {"kind": "simcse", "views": "triples"},
    "targets": {"kind": "clm", "loss": "targets"},
    "targets-first": {"kind": "clm", "loss": "targets", "mask_first_token": True},
    "prompts": {"kind": "prefix_lm", "split": "source"},
    "prompts-packed": {"kind": "prefix_lm", "split": "source", "pack_documents": True},
    "prompts-seq2seq": {"kind": "prefix_lm", "split": "source", "architecture": "encoder_decoder"},
    "t5": {"kind": "span_corruption"},
    "t5-packed": {"kind": "span_corruption", "pack_rows": True, "mode_token": "mode_r"},
}
LEARNED = {"clm", "mlm"}
"""Kinds with a loss that is looked at; they have tests of their own."""
OBJECTIVES: dict[str, Content] = with_every_kind(_FORMS, but=LEARNED)
MATERIALISED = {"unigram": 2, "fim": 2, "t5": 2, "crops": 1}
"""Epochs that stand on disk."""
BEYOND_ROWS = (
    "nsp",
    "sop",
    "text-fim",
    "document-fim",
    "sentences",
    "packed-sentences",
    "model",
)
"""Those of which no other epochs can be opened; three stand on disk."""
EPOCHS = {**MATERIALISED, **dict.fromkeys(BEYOND_ROWS, 3)}
DATASETS = [
    {"name": name, "objective": objective, "materialized_epochs": EPOCHS.get(name, 0)}
    for name, objective in OBJECTIVES.items()
]
