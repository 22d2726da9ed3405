# tests
include tests/unit/cache.mk
include tests/loader.mk
include tests/unit/ptx.mk
include tests/integration.mk
include tests/replay.mk
include tests/bench.mk
include tests/fuzz/local.mk
