"""SHD against the threshold on interventional data. Not in the paper."""

from sdcd.figures._thresholds import thresholds

EXPERIMENTS = ("thresholds_interventional",)

draw = thresholds("interventional data")
