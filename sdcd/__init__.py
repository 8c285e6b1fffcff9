"""Stable Differentiable Causal Discovery, its baselines, and the paper's experiments.

Data flows one way, and a module knows only what stands before it in this list:

``errors``, ``files``   messages for people; files that are complete or absent
``data``                :class:`~sdcd.data.Dataset`: values, interventions, names, true graph
``graphs``, ``metrics`` graph algorithms; distances between a learned graph and the truth
``acyclicity``          the five acyclicity constraints, values and gradients
``simulation``          the paper's data sets, seed for seed
``estimator``           :class:`~sdcd.estimator.SDCD` and its engines
``methods``             the contract of a method and the registry
``variants``            SDCD and its ablations as registered methods
``baselines``           one file per compared method
``running``             one fit in a process of its own, with limits on time and memory
``experiments``         the paper's grids
``published``           the paper's numbers
``figures``, ``tables`` what the paper shows, beside what was reproduced
``cli``                 the ``sdcd`` command

Everywhere, ``A[i, j] != 0`` means an edge i -> j.
"""

__version__ = "0.1.0"
