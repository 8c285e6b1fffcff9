"""Tables of runs, one row per fit, and what is computed from them.

``table``         as files: one row per fit
``collect``       the rows: a fit's scores and costs
``summaries``     means, spreads and pairs over seeds
``thresholds``    the fits' weights cut at other thresholds
``cartoon``       the stages of one fit of SDCD
"""
