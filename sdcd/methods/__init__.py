"""What a causal discovery method is, and every method there is.

``contract``    what a method takes and returns, and how it is registered
``registry``    all registered methods by name
``variants``    SDCD and its ablations
``dag``         any method's graph as a DAG
``pruned``      every method with held-out pruning after it
``ordered``     every method with the search over orders after it
``outside``     commands of other programs as methods
"""

from sdcd.methods.contract import FirstStage, Graph, Method, Part, register

__all__ = ["FirstStage", "Graph", "Method", "Part", "register"]
