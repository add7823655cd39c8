"""Templates that turn an evaluated group into a kernel."""
