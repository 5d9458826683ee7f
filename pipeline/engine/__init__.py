"""The engine: who does the tasks of steps, in what order, and with what memory."""
