"""Data sets: values, interventions, names, and the true graph where it is known.

``dataset``     :class:`~sdcd.data.dataset.Dataset`, its file, and what a data set must be
``own_data``    a person's own table: .csv, .parquet, .h5ad
``edges``       lists of edges by the names of their variables
"""
