"""Networks of vectors: recurrent, transformers, recommendation."""
