"""Data sets: values, interventions, names, and the true graph where it is known.

``dataset``     :class:`~sdcd.data.dataset.Dataset`, its file, and what a data set must be
``checks``      what data must be for a fit, whichever way they come in
``own_data``    a person's own table: labels understood, rows and columns left out
``tables``      the formats .csv, .tsv, .parquet
``annotated``   the formats .h5ad and .zarr
``look``        columns and size of a table, without reading its values
``edges``       lists of edges by the names of their variables
``knowledge``   what is known beforehand about edges
``required``    whether edges that must be form a cycle
``pairs``       lists of pairs of variables with what is known about each
``paths``       what can be reached from where in a graph
``evaluation``  what perturbations say of a graph, without the true one
``sortability`` how much of the causal order sorting the variables gives away
"""
