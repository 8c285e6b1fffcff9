"""Stable Differentiable Causal Discovery, its baselines, and the paper's experiments.

Data flows one way, and a module knows only what stands before it in this list:

``errors``, ``files``        messages for people; files that are complete or absent
``edges``                    lists of edges by name
``own_data``, ``data``       :class:`~sdcd.data.Dataset`: values, interventions, names, true graph
``graphs``, ``metrics``      graph algorithms; distances between a learned graph and the truth
``acyclicity``               the five acyclicity constraints, values and gradients
``simulation``               the paper's data sets, seed for seed
``estimator``                :class:`~sdcd.estimator.SDCD` and its engines
``methods``, ``outside``     the contract of a method and the registry; outside commands as methods
``variants``                 SDCD and its ablations as registered methods
``baselines``                one file per compared method
``pruning``, ``pruned``      held-out pruning of a DAG; every method with it as a method of its own
``fingerprint``              a hash of the code that a result depends on
``provenance``               where a result comes from: its code, commit and data
``running``                  one fit in a process of its own, with limits on time and memory
``configuration``            config.yaml, checked
``costs``, ``experiments``   what a fit is expected to cost; the paper's grids
``progress``, ``origin``     how far a run of the workflow is; whether results were made from here
``runs``, ``summaries``      one row per fit; means, spreads and pairs over seeds
``thresholds``, ``cartoon``  tables made from the fits' weights: other cuts; SDCD's stages
``published``                the paper's numbers
``figures``, ``tables``      what the paper shows, beside what was reproduced
``verdicts``                 does it reproduce, cell by cell and claim by claim
``pruning_effects``          what held-out pruning changes on the same data sets
``overview``, ``report``     what was run and what failed; one page of everything
``redraw``, ``archive``      all that is made from runs, made again; results as one file
``cli``                      the ``sdcd`` command

Everywhere, ``A[i, j] != 0`` means an edge i -> j.
"""

__version__ = "0.1.0"
