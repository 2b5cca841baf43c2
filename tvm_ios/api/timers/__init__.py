"""The ways to time a model's programs: here, on a fleet, on a device, or by described costs."""
