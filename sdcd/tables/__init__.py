"""The tables of the paper, ours beside the published."""
