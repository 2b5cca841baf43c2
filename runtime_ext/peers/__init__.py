"""What our programs are compared with: each way to run a model is a peer, and the registry has all.

A peer gets a network, the model as files or as a module of PyTorch, and starts it, ready to be
timed beside others: models of ``bench`` (:mod:`model_files`), and those of bundles
(:mod:`runtime_ext.bundle.network`).
"""
