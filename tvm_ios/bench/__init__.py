"""Our programs beside peers on whole models, as a document that grows."""
