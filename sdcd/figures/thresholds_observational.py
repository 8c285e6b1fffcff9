"""SHD against the threshold on observational data. Not in the paper."""

from sdcd.figures._thresholds import thresholds

EXPERIMENTS = ("thresholds_observational",)

draw = thresholds("observational data")
