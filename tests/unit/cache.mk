if HAVE_CHECK
check_PROGRAMS += %D%/test_cache
TESTS += %D%/test_cache
%C%_test_cache_SOURCES = %D%/test_cache.c %D%/fake_device.c %D%/fake_device.h
%C%_test_cache_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
%C%_test_cache_LDADD = cache/libcache.la $(CHECK_LIBS)
check_PROGRAMS += %D%/test_cache_rare
TESTS += %D%/test_cache_rare
%C%_test_cache_rare_SOURCES = %D%/test_cache_rare.c %D%/fake_device.c %D%/fake_device.h
%C%_test_cache_rare_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
%C%_test_cache_rare_LDADD = cache/libcache.la $(CHECK_LIBS)
check_PROGRAMS += %D%/test_greedy
TESTS += %D%/test_greedy
%C%_test_greedy_SOURCES = %D%/test_greedy.c
%C%_test_greedy_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
%C%_test_greedy_LDADD = cache/libcache.la $(CHECK_LIBS)
check_PROGRAMS += %D%/test_stall
TESTS += %D%/test_stall
%C%_test_stall_SOURCES = %D%/test_stall.c
%C%_test_stall_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
%C%_test_stall_LDADD = cache/libcache.la $(CHECK_LIBS)
check_PROGRAMS += %D%/test_cache_costs
TESTS += %D%/test_cache_costs
%C%_test_cache_costs_SOURCES = %D%/test_cache_costs.c %D%/fake_device.c %D%/fake_device.h
%C%_test_cache_costs_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
%C%_test_cache_costs_LDADD = cache/libcache.la $(CHECK_LIBS)
endif
