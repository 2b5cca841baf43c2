"""Our programs beside peers on whole models, as a document that grows.

- bench: latencies; throughput: requests a second; models: several models one by one
- material: what is compared, made once; document: what was measured, as JSON
"""
