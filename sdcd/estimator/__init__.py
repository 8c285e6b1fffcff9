"""The SDCD estimator."""
