"""Laws: what must hold of the columns of every row that an objective makes."""
