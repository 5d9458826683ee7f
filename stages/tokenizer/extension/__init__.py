"""Extension: pieces for new text, appended to a vocabulary whose old ids stay as they are."""
