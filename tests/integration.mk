# Jobs in C on the synthetic GPU with the library preloaded.
if HAVE_CHECK
integration_tests = %D%/integration/test_alloc
check_PROGRAMS += $(integration_tests)
TESTS += $(integration_tests)
endif

integration_sources = %D%/integration/scenario.c %D%/integration/scenario.h %D%/integration/job.c \
	%D%/integration/job.h %D%/integration/kernels.c
integration_cppflags = $(AM_CPPFLAGS) -DSYNTHETIC_DIR='"$(abs_top_builddir)/synthetic"' \
	-DPRELOAD_LIBRARY='"$(abs_top_builddir)/.libs/libhbmspill.so"'

%C%_integration_test_alloc_SOURCES = %D%/integration/test_alloc.c $(integration_sources)
%C%_integration_test_alloc_CPPFLAGS = $(integration_cppflags)
%C%_integration_test_alloc_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
%C%_integration_test_alloc_LDADD = $(CHECK_LIBS)
