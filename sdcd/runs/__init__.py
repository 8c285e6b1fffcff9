"""Tables of runs, one row per fit, and what is computed from them.

``table``         as files: one row per fit
``collect``       the rows: a fit's scores and costs
``summaries``     means, spreads and pairs over seeds
``thresholds``    the fits' weights cut at other thresholds
``cartoon``       the stages of one fit of SDCD
``sortability``   how much of each data set's order sorting its variables gives away
``standings``     who leads on each kind of data set
``own_data``      how far methods agree on a person's own table
"""
