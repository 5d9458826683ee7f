"""Objectives: what each pre-training objective makes of packed rows."""
