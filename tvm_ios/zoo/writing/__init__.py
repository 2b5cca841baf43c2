"""What networks of the zoo are written with.

- model_writer: an ONNX model operator by operator
- network: on it, networks of images, with padding; encoder: transformers; recurrent: LSTM cells
"""
