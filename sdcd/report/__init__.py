"""One page of everything, and results as one file.

``page``               the report
``own_page``           the page on a person's own table
``overview``           what was run, and what failed
``judgement``          the verdicts in words
``pruning_effects``    what a step after a method changes on the same data sets
``redraw``             all that is made from runs, made again
``archive``            results as one file
``inputs``             what is read of a folder of results
``template``           the templates, filled, with what ``view`` holds
"""
