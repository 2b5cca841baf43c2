"""Writers of the zoo's networks as ONNX models.

- model_writer: an ONNX model operator by operator
- network: on it, networks of images, with padding; encoder: transformers; recurrent: LSTM cells
"""
