# Generated sequences of driver calls: scripts/fuzz runs them.
noinst_PROGRAMS += %D%/sequence
%C%_sequence_SOURCES = %D%/sequence.c %D%/settings.c %D%/settings.h %D%/actions.c %D%/actions.h \
	%D%/world.c %D%/world.h %D%/objects.c %D%/objects.h %D%/order.c %D%/order.h %D%/random.h \
	%D%/operation.c %D%/operation.h %D%/submit.c %D%/submit.h %D%/graphs.c %D%/graphs.h \
	%D%/nodes.c %D%/nodes.h \
	tests/integration/job.c tests/integration/job.h tests/integration/kernels.c
%C%_sequence_CPPFLAGS = $(AM_CPPFLAGS) -DSYNTHETIC_DIR='"$(abs_top_builddir)/synthetic"' \
	-DPRELOAD_LIBRARY='"$(PRELOAD_FIRST)$(abs_top_builddir)/.libs/libhbmspill.so"' \
	-DFUZZ_TABLE='"$(abs_top_srcdir)/%D%/open.table"'
%C%_sequence_CFLAGS = $(AM_CFLAGS) -pthread
EXTRA_DIST += %D%/open.table
