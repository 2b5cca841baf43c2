"""Our programs beside peers on whole models, as a JSON document to which models are added.

- bench: latencies; throughput: requests a second; models: several models one by one
- material: executables and files to compare, made once; document: the results as JSON
"""
