"""Stages: pure functions from values to values; no Ray, no clock, no environment."""
