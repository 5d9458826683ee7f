"""Chat: dialogues as texts, through named templates, with the turns that are learned."""
