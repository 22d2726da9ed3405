if HAVE_CHECK
check_PROGRAMS += %D%/test_pinned
TESTS += %D%/test_pinned
%C%_test_pinned_SOURCES = %D%/test_pinned.c
%C%_test_pinned_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
%C%_test_pinned_LDADD = pinned/libpinned.la $(JEMALLOC_LIBS) $(CHECK_LIBS)
endif
# Run by scripts/bench.
check_PROGRAMS += %D%/bench_pinned
%C%_bench_pinned_SOURCES = %D%/bench_pinned.c
%C%_bench_pinned_LDADD = pinned/libpinned.la $(JEMALLOC_LIBS)
