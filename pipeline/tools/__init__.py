"""Tools: what stands beside a run. The run imports none of them, and works without this folder."""
