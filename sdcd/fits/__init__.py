"""Fits: one method on one data set, and what is known about it.

``run``            a fit in a process of its own, with limits on time and memory
``provenance``     the code, commit and data that a fit comes from
``fingerprint``    a hash of the code that a result depends on
``costs``          what a fit is expected to cost, and what its job asks for
"""
