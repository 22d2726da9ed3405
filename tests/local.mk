# tests
include tests/unit/cache.mk
include tests/unit/pinned.mk
include tests/loader.mk
include tests/unit/ptx.mk
include tests/integration.mk
include tests/replay.mk
include tests/tool.mk
include tests/bench.mk
include tests/fuzz/local.mk
# Targets of libFuzzer: tests/parsers/run builds them, with clang.
EXTRA_DIST += %D%/parsers
