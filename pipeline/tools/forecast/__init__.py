"""Forecast: a run over a sample of the inputs, scaled to all of them."""
