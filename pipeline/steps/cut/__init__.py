"""The step cut: repeated lines, paragraphs and substrings, cut from the texts of kept documents."""
