"""Our programs beside other runners on whole models, as a document that grows."""
