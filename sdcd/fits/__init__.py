"""Fits: one method on one data set, and what is known about it.

``run``            a fit from data to file: what a caller calls
``process``        the process that does it, with limits on time and memory
``child``          the program of that process
``several``        some fits at once
``draws``          the rows of a resample
``resamples``      a method fitted to parts of the rows: how often each edge is found
``record``         a fit as it is kept, read again
``provenance``     the code, commit and data that a fit comes from
``fingerprint``    a hash of the code that a result depends on
``costs``          what a fit is expected to cost, and what its job asks for
``measured``       the table of costs, written from records
"""
