"""Loading: datasets as trainers see them; needs the base dependencies alone."""
