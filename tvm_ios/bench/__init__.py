"""Our programs beside peers on whole models, as a JSON document to which models are added."""
