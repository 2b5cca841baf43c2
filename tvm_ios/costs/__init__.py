"""Cost models: times of stages, by a device's description, measured, recorded or composed."""
