"""The paper's runs, kept in the repository: made over days, drawn in minutes.

``ledger``    one row for each fit that was made, in ``reproduction/fits.csv``
``run``       the fits of a scale that the ledger does not have, one after the other
``look``      the report from the ledger alone
``standing``  how much of the paper it reproduces, in a sentence

``python -m sdcd.reproduction --help`` has the commands; ``make look`` is the last of them.
"""
