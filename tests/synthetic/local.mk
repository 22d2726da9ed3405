# tests/synthetic
