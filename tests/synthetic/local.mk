# tests/synthetic
include tests/synthetic/ptx.mk
