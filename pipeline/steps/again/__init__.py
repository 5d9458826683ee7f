"""Made again: what a step committed, held to what its work gives a second time."""
