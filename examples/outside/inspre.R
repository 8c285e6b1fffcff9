# Inverse sparse regression on single interventions, with the package inspre.
#
#     Rscript inspre.R DATA.csv INTERVENED.csv GRAPH.csv FOLDS SEED
#
# DATA.csv: a header of names, then the rows. INTERVENED.csv: the same shape, 1 where an intervention
# set the value. GRAPH.csv: a matrix of effects, one row a parent. FOLDS: of the cross-validation
# that chooses the penalty.

options(warn = 1)

# One row's target, by row: its name, or "control".
targets_of <- function(intervened) {
  count <- rowSums(intervened)
  if (any(count > 1)) {
    stop("row ", which(count > 1)[1], " has ", max(count), " targets, inspre takes one at most")
  }
  if (sum(count == 0) < 2) stop("fewer than two rows without an intervention, which inspre needs")
  if (length(unique(which(intervened != 0, arr.ind = TRUE)[, "col"])) < 2) {
    stop("fewer than two variables were intervened on, between which inspre finds effects")
  }
  targets <- rep("control", nrow(intervened))
  targets[count == 1] <- colnames(intervened)[max.col(intervened)[count == 1]]
  targets
}

main <- function(arguments) {
  if (length(arguments) != 5) stop("expected DATA.csv INTERVENED.csv GRAPH.csv FOLDS SEED")
  folds <- suppressWarnings(as.integer(arguments[4]))
  if (is.na(folds) || folds < 2) stop("FOLDS is ", arguments[4], ", expected at least 2")
  suppressPackageStartupMessages(library(inspre))
  X <- as.matrix(read.csv(arguments[1], check.names = FALSE))
  intervened <- as.matrix(read.csv(arguments[2], check.names = FALSE))
  own_names <- colnames(X)
  d <- length(own_names)
  # inspre makes columns of data frames from names, and calls a row without a target "control".
  colnames(X) <- colnames(intervened) <- paste0("v", seq_len(d))
  targets <- targets_of(intervened)
  # Effects are ratios of sums of values, so values are counted from the controls' mean.
  controls <- X[targets == "control", ]
  X <- sweep(sweep(X, 2, colMeans(controls)), 2, apply(controls, 2, sd), "/")

  set.seed(as.integer(arguments[5]))
  # Its cross-validation ends in an error where a column is no row's target.
  found <- fit_inspre_from_X(
    X = X[, colnames(X) %in% targets], targets = targets, filter = FALSE, cv_folds = folds,
    verbose = 0, ncores = 1
  )
  # A penalty at which the fit did not converge has no finite error.
  error <- ifelse(is.finite(found$eps_hat_G), found$eps_hat_G, Inf)
  if (all(is.infinite(error))) stop("inspre converged at no penalty")
  best <- found$G_hat[, , which.min(error)]
  # A variable without interventions is not in the result: no edges.
  G <- matrix(0, d, d, dimnames = dimnames(X)[c(2, 2)])
  G[rownames(best), colnames(best)] <- best
  dimnames(G) <- list(own_names, own_names)
  write.csv(G, arguments[3], row.names = FALSE)
}

# The last line of standard error is the reason that a failed fit is recorded with.
tryCatch(main(commandArgs(trailingOnly = TRUE)), error = function(problem) {
  message("inspre.R: ", gsub("\n", " ", conditionMessage(problem)))
  quit(status = 1)
})
