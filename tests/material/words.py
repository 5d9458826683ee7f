"""Words that the texts of small runs are made of."""

WORDS = "an old mill by the river grinds the corn of every village far and near".split()  # noqa: SIM905  # reads as text
