"""SDCD: its two stages, the engines that compute them, and what can be done with its graph.

``model``            the method in plain torch, to be read
``estimator``        parameters, data, the two stages, the result
``fitting``          how a fit runs: the split of the data, both stages with their snapshots
``stages``           the loop over epochs: validation, early stopping, gamma
``stage_one``        stage 1's result, by blocks of targets or gathered
``checkpoint``       snapshots of a fit in progress
``state``            what passes from one optimisation step to the next
``engine``           what an engine computes; ``engine_numba``, ``engine_torch`` the fast ones
``kernels``          compiled, of ``engine_numba``
``penalties_torch``  of ``engine_torch``
``pruning``          a third stage: which edges help to predict their child on held-out rows
``local_scores``     held-out scores of sets of parents, many networks fitted together
``ordering``         search over causal orders by these scores
``order_graph``      the graph of an order
``ordered``          both steps, on data: candidates that grow, restarts, honest gains
``generative``       the graph as a model of the data: density, samples, effects of interventions
``directions``       how sure the direction of each edge is
``signs``            whether a child grows or falls with its parent
"""

from sdcd.estimator.estimator import SDCD, Edges
from sdcd.estimator.stage_one import StageOne, gather

__all__ = ["SDCD", "Edges", "StageOne", "gather"]
