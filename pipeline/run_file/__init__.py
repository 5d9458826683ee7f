"""The run file: its settings, what they mean, what of them decides bytes."""
