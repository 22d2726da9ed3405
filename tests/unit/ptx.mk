if HAVE_CHECK
PTX_TESTS = %D%/test_ptx_integer %D%/test_ptx_float %D%/test_ptx_convert %D%/test_ptx_flow \
	%D%/test_ptx_random %D%/test_ptx_warp %D%/test_ptx_memory %D%/test_ptx_atomic \
	%D%/test_ptx_fault %D%/test_ptx_module
check_PROGRAMS += $(PTX_TESTS)
TESTS += $(PTX_TESTS)
PTX_TEST_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) -ffp-contract=off -frounding-math
PTX_TEST_LDADD = tests/synthetic/libptx.la $(CHECK_LIBS) -lm -lpthread
PTX_HARNESS = %D%/ptx_harness.c %D%/ptx_harness.h
%C%_test_ptx_integer_SOURCES = %D%/test_ptx_integer.c $(PTX_HARNESS)
%C%_test_ptx_integer_CFLAGS = $(PTX_TEST_CFLAGS)
%C%_test_ptx_integer_LDADD = $(PTX_TEST_LDADD)
%C%_test_ptx_float_SOURCES = %D%/test_ptx_float.c $(PTX_HARNESS)
%C%_test_ptx_float_CFLAGS = $(PTX_TEST_CFLAGS)
%C%_test_ptx_float_LDADD = $(PTX_TEST_LDADD)
%C%_test_ptx_convert_SOURCES = %D%/test_ptx_convert.c $(PTX_HARNESS)
%C%_test_ptx_convert_CFLAGS = $(PTX_TEST_CFLAGS)
%C%_test_ptx_convert_LDADD = $(PTX_TEST_LDADD)
%C%_test_ptx_flow_SOURCES = %D%/test_ptx_flow.c $(PTX_HARNESS)
%C%_test_ptx_flow_CFLAGS = $(PTX_TEST_CFLAGS)
%C%_test_ptx_flow_LDADD = $(PTX_TEST_LDADD)
%C%_test_ptx_random_SOURCES = %D%/test_ptx_random.c $(PTX_HARNESS)
%C%_test_ptx_random_CFLAGS = $(PTX_TEST_CFLAGS)
%C%_test_ptx_random_LDADD = $(PTX_TEST_LDADD)
%C%_test_ptx_warp_SOURCES = %D%/test_ptx_warp.c $(PTX_HARNESS)
%C%_test_ptx_warp_CFLAGS = $(PTX_TEST_CFLAGS)
%C%_test_ptx_warp_LDADD = $(PTX_TEST_LDADD)
%C%_test_ptx_memory_SOURCES = %D%/test_ptx_memory.c $(PTX_HARNESS)
%C%_test_ptx_memory_CFLAGS = $(PTX_TEST_CFLAGS)
%C%_test_ptx_memory_LDADD = $(PTX_TEST_LDADD)
%C%_test_ptx_atomic_SOURCES = %D%/test_ptx_atomic.c $(PTX_HARNESS)
%C%_test_ptx_atomic_CFLAGS = $(PTX_TEST_CFLAGS)
%C%_test_ptx_atomic_LDADD = $(PTX_TEST_LDADD)
%C%_test_ptx_fault_SOURCES = %D%/test_ptx_fault.c $(PTX_HARNESS)
%C%_test_ptx_fault_CFLAGS = $(PTX_TEST_CFLAGS)
%C%_test_ptx_fault_LDADD = $(PTX_TEST_LDADD)
%C%_test_ptx_module_SOURCES = %D%/test_ptx_module.c $(PTX_HARNESS)
%C%_test_ptx_module_CFLAGS = $(PTX_TEST_CFLAGS)
%C%_test_ptx_module_LDADD = $(PTX_TEST_LDADD)
endif
