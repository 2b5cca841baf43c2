"""How long stages take: described, measured, recorded or composed."""
