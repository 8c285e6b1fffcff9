"""SHD of SDCD and DCDI on interventional data (the paper's fig:interventional)."""

from sdcd.figures._boxes import boxes

EXPERIMENTS = ("interventional",)

draw = boxes("shd", "SHD (edges)", methods=("SDCD", "DCDI-G"), sparsities=(2, 4, 6))
