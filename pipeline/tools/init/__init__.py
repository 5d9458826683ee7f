"""Init: looks at folders of texts, and writes a commented run file that runs on them."""
