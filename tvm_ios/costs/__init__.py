"""Cost models: how long stages take, as described, measured, recorded or composed."""
