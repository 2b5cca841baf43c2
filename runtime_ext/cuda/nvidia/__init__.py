"""NVIDIA's libraries, called so that errors raise: driver, NVRTC, cuDNN."""
