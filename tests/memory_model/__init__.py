"""Memory models, checked exhaustively: litmus tests of few threads under PTX's and C++'s axioms."""
