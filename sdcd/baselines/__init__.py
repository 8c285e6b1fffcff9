"""The methods that SDCD is compared with, one file each."""
