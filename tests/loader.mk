# Tests of the loader layer.
if HAVE_CHECK
check_PROGRAMS += %D%/unit/test_options
TESTS += %D%/unit/test_options
%C%_unit_test_options_SOURCES = %D%/unit/test_options.c shim/options.c
%C%_unit_test_options_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
%C%_unit_test_options_LDADD = $(CHECK_LIBS)
endif
