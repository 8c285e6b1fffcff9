# A Gaussian Bayesian network by greedy search, with the package deal (Debian: r-cran-deal).
#
#     Rscript deal.R DATA.csv GRAPH.csv PRIOR_ROWS
#
# DATA.csv: a header of names, then the rows. GRAPH.csv: one row an edge, parent and child.
# PRIOR_ROWS: how many rows the prior counts as.

options(warn = 1)

main <- function(arguments) {
  if (length(arguments) != 3) stop("expected DATA.csv GRAPH.csv PRIOR_ROWS")
  prior_rows <- suppressWarnings(as.numeric(arguments[3]))
  if (is.na(prior_rows)) stop("PRIOR_ROWS is ", arguments[3], ", expected a number")
  suppressMessages(library(deal))
  data <- read.csv(arguments[1], check.names = FALSE)
  own_names <- names(data)
  d <- length(own_names)
  # deal builds formulas from names.
  names(data) <- paste0("v", seq_len(d))
  # It has no prior without a discrete variable: one that never varies, and that no edge may touch.
  data$unused <- factor(rep("same", nrow(data)))

  # What it prints is of no use here.
  invisible(capture.output({
    network <- network(data)
    prior <- jointprior(network, N = prior_rows)
    banlist(network) <- cbind(d + 1, seq_len(d))
    start <- getnetwork(learn(network, data, prior))
    found <- getnetwork(autosearch(start, data, prior, trace = FALSE))
  }))

  parents <- lapply(found$nodes[seq_len(d)], function(node) node$parents)
  edges <- data.frame(
    parent = own_names[unlist(parents)],
    child = own_names[rep(seq_len(d), lengths(parents))]
  )
  write.csv(edges, arguments[2], row.names = FALSE)
}

# The last line of standard error is the reason that a failed fit is recorded with.
tryCatch(main(commandArgs(trailingOnly = TRUE)), error = function(problem) {
  message("deal.R: ", gsub("\n", " ", conditionMessage(problem)))
  quit(status = 1)
})
