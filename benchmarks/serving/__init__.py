"""Programs as they are deployed.

deployment.py          a deployment of twelve programs beside twelve executables
deployment_in_cpp.py   a deployment from C++, without Python
steadiness.py          latencies beside other work
steps.py               steps of streaming models, beside ONNX Runtime
throughput.py          requests a second
"""
