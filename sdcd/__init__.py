"""Stable Differentiable Causal Discovery, its baselines, and the paper's experiments.

Data flows one way, and a room imports only from those that stand before it in this list:

``errors``, ``files``        messages for people; files that are complete or absent
``signals``                  signals that end programs
``compiled``, ``cores``      functions compiled by numba; how many threads are worth starting
``parameters``               what a parameter may be, one checker for all
``statistics``               estimates, equivalence tests, corrections for multiplicity
``graphs``, ``metrics``      graph algorithms; distances between a learned graph and the truth
``data``                     data sets, a person's own tables, lists of edges
``acyclicity``               the five acyclicity constraints, values and gradients
``simulation``               the paper's data sets, seed for seed
``estimator``                :class:`~sdcd.estimator.SDCD`, its engines, and held-out pruning
``methods``                  what a method is; SDCD's variants; every method by name
``baselines``                one file per compared method
``fits``                     one fit in a process of its own; its code, its cost
``studies``                  studies of the acyclicity constraints alone
``experiments``              config.yaml, and the paper's grids that follow from it
``runs``                     one row per fit; means, spreads and pairs over seeds
``published``                the paper's numbers
``verdicts``                 does it reproduce, cell by cell and claim by claim
``figures``, ``tables``      what the paper shows, beside what was reproduced; none of the three
                             depends on another
``exhibits``                 what each figure and table is made from
``report``                   one page of everything; results as one file
``reproduction``             the paper's runs as kept in the repository
``cli``                      the ``sdcd`` command

Everywhere, ``A[i, j] != 0`` means an edge i -> j.
"""

__version__ = "0.1.0"
