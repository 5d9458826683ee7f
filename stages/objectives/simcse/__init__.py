"""SimCSE's views: all that the program knows of it."""
