"""Passes over Relax modules. No pass changes its input."""
