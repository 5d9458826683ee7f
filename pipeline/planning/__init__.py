"""What a run would do: its steps, what is done of them, and whether it can be done here."""
