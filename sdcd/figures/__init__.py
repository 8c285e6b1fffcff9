"""The figures of the paper, ours beside the published."""
