"""What DCDI and DCD-FG share: see :mod:`sdcd.baselines.dcdi` and :mod:`sdcd.baselines.dcdfg`.

``model``                 the objective, the masks, the densities of DCDI-G and DCDI-DSF
``augmented_lagrangian``  when the multipliers grow, the two training loops, their stopping rules
``factor_graph``          the objective of DCD-FG
``networks``              parameters, networks' shapes, RMSprop
``kernels``               all that is compiled: draws, losses and gradients of batches, tr exp
"""
