"""Decontamination: texts of evaluation sets that stand in documents."""
