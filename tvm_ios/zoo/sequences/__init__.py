"""Networks on vectors: recurrent networks, transformers, recommendation."""
