"""General solvers that several rooms use: constraint programming and PBQP."""
