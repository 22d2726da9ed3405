# tests
include tests/unit/cache.mk
