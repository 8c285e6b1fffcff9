"""What is run: the paper's grids at each scale.

``datasets``         data sets by name
``plan``             from a configuration to every fit, with its settings and limits
``configuration``    config.yaml, checked
``progress``         how far a run of the workflow is
``origin``           whether results were made from this folder
"""
