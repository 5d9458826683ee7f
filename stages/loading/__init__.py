"""Loading: datasets as trainers see them; the base dependencies do, but for attention and losses."""
