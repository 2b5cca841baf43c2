"""IOS: the dynamic program over stages, its search spaces, and the lazy search by measurement."""
