"""What is run: the paper's grids at each scale.

``datasets``         data sets by name
``plan``             from a configuration to every fit, with its settings and limits
``configuration``    config.yaml, checked
``own_data``         tables of a person's own, as the workflow fits them
``progress``         how far a run of the workflow is
``origin``           whether results were made from this folder
"""
