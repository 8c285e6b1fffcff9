"""One page of everything, and results as one file.

``page``               the report
``overview``           what was run, and what failed
``pruning_effects``    what a step after a method changes on the same data sets
``redraw``             all that is made from runs, made again
``archive``            results as one file
"""
