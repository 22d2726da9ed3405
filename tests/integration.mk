# Jobs in C on the synthetic GPU with the library preloaded.
if HAVE_CHECK
integration_tests = \
	%D%/integration/test_alloc \
	%D%/integration/test_autotune \
	%D%/integration/test_await \
	%D%/integration/test_copies \
	%D%/integration/test_costs \
	%D%/integration/test_devices \
	%D%/integration/test_edges \
	%D%/integration/test_ends \
	%D%/integration/test_faults \
	%D%/integration/test_fork \
	%D%/integration/test_graph_launches \
	%D%/integration/test_graph_nodes \
	%D%/integration/test_graphs \
	%D%/integration/test_host_pools \
	%D%/integration/test_kernels \
	%D%/integration/test_long_run \
	%D%/integration/test_numa \
	%D%/integration/test_open \
	%D%/integration/test_own_heap \
	%D%/integration/test_pinned \
	%D%/integration/test_planner \
	%D%/integration/test_queries \
	%D%/integration/test_regions \
	%D%/integration/test_rounds \
	%D%/integration/test_runtime \
	%D%/integration/test_runtime_host \
	%D%/integration/test_seldom \
	%D%/integration/test_streams \
	%D%/integration/test_submitting \
	%D%/integration/test_threads \
	%D%/integration/test_tail \
	%D%/integration/test_verify \
	%D%/integration/test_window
check_PROGRAMS += $(integration_tests)
TESTS += $(integration_tests)
check_LTLIBRARIES += %D%/integration/libjob.la
endif

# What they share: the runner, the table of driver functions, the kernels.
%C%_integration_libjob_la_SOURCES = %D%/integration/scenario.c %D%/integration/scenario.h %D%/integration/job.c \
	%D%/integration/job.h %D%/integration/kernels.c
%C%_integration_libjob_la_CPPFLAGS = $(AM_CPPFLAGS) -DSYNTHETIC_DIR='"$(abs_top_builddir)/synthetic"' \
	-DPRELOAD_LIBRARY='"$(PRELOAD_FIRST)$(abs_top_builddir)/.libs/libhbmspill.so"'
%C%_integration_libjob_la_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)

integration_cflags = $(AM_CFLAGS) $(CHECK_CFLAGS)
integration_libs = %D%/integration/libjob.la $(CHECK_LIBS)

%C%_integration_test_regions_SOURCES = %D%/integration/test_regions.c
%C%_integration_test_regions_CFLAGS = $(integration_cflags)
%C%_integration_test_regions_LDADD = $(integration_libs)

%C%_integration_test_autotune_SOURCES = %D%/integration/test_autotune.c
%C%_integration_test_autotune_CFLAGS = $(integration_cflags)
%C%_integration_test_autotune_LDADD = $(integration_libs)

%C%_integration_test_alloc_SOURCES = %D%/integration/test_alloc.c
%C%_integration_test_alloc_CFLAGS = $(integration_cflags)
%C%_integration_test_alloc_LDADD = $(integration_libs)

%C%_integration_test_await_SOURCES = %D%/integration/test_await.c
%C%_integration_test_await_CPPFLAGS = $(AM_CPPFLAGS) -DOPEN_TABLE='"$(abs_top_srcdir)/%D%/integration/open.table"'
%C%_integration_test_await_CFLAGS = $(integration_cflags)
%C%_integration_test_await_LDADD = $(integration_libs)

%C%_integration_test_copies_SOURCES = %D%/integration/test_copies.c
%C%_integration_test_copies_CFLAGS = $(integration_cflags)
%C%_integration_test_copies_LDADD = $(integration_libs)

%C%_integration_test_costs_SOURCES = %D%/integration/test_costs.c
%C%_integration_test_costs_CFLAGS = $(integration_cflags)
%C%_integration_test_costs_LDADD = $(integration_libs)

%C%_integration_test_edges_SOURCES = %D%/integration/test_edges.c
%C%_integration_test_edges_CFLAGS = $(integration_cflags)
%C%_integration_test_edges_LDADD = $(integration_libs)

%C%_integration_test_faults_SOURCES = %D%/integration/test_faults.c %D%/integration/fault_graphs.c \
	%D%/integration/fault_job.h %D%/integration/fault_jobs.c %D%/integration/fault_jobs.h %D%/integration/faults_unreached.h
nodist_%C%_integration_test_faults_SOURCES = %D%/integration/documented_errors.h %D%/integration/named_errors.h
%C%_integration_test_faults_CFLAGS = $(integration_cflags)
%C%_integration_test_faults_LDADD = $(integration_libs)

%C%_integration_test_devices_SOURCES = %D%/integration/test_devices.c
%C%_integration_test_devices_CFLAGS = $(integration_cflags)
%C%_integration_test_devices_LDADD = $(integration_libs)

# Beside a job that it kills there is a planner.
%C%_integration_test_ends_SOURCES = %D%/integration/test_ends.c %D%/integration/ends_job.c %D%/integration/ends_job.h
%C%_integration_test_ends_CPPFLAGS = $(AM_CPPFLAGS) -DPLANNER='"$(abs_top_builddir)/cache/tools/hbmspill-plan"' \
	-DSYNTHETIC_DIR='"$(abs_top_builddir)/synthetic"' \
	-DPRELOAD_LIBRARY='"$(PRELOAD_FIRST)$(abs_top_builddir)/.libs/libhbmspill.so"'
%C%_integration_test_ends_CFLAGS = $(integration_cflags)
%C%_integration_test_ends_LDADD = $(integration_libs)
EXTRA_%C%_integration_test_ends_DEPENDENCIES = cache/tools/hbmspill-plan$(EXEEXT)

%C%_integration_test_fork_SOURCES = %D%/integration/test_fork.c
%C%_integration_test_fork_CPPFLAGS = $(AM_CPPFLAGS) -DSYNTHETIC_DIR='"$(abs_top_builddir)/synthetic"'
%C%_integration_test_fork_CFLAGS = $(integration_cflags)
%C%_integration_test_fork_LDADD = $(integration_libs)

# What cuda.h says that each function may return.
%D%/integration/documented_errors.h: %D%/integration/documented_errors.awk
	$(AM_V_GEN)$(MKDIR_P) %D%/integration && \
	header=$$(echo '#include <cuda.h>' | $(CC) $(CUDA_CPPFLAGS) -E -x c - | sed -n 's/^# 1 "\(.*\/cuda\.h\)".*/\1/p' | head -n 1) && \
	awk -f $(top_srcdir)/%D%/integration/documented_errors.awk "$$header" >$@.new && test -s $@.new && mv $@.new $@
# The errors that the library's own code names: others are all the same to it.
%D%/integration/named_errors.h: $(libhbmspill_la_SOURCES)
	$(AM_V_GEN)$(MKDIR_P) %D%/integration && cd $(top_srcdir) && \
	cat $(libhbmspill_la_SOURCES) | grep -oE 'CUDA_ERROR_[A-Z_]+' | sort -u | sed 's/^CUDA_ERROR_\(.*\)/"\1",/' \
	    >$(abs_top_builddir)/$@.new && cd $(abs_top_builddir) && test -s $@.new && mv $@.new $@
# Also by `make all', for who reads the sources before the tests are built.
BUILT_SOURCES += %D%/integration/documented_errors.h %D%/integration/named_errors.h
CLEANFILES += %D%/integration/documented_errors.h %D%/integration/named_errors.h
EXTRA_DIST += %D%/integration/documented_errors.awk
%D%/integration/test_faults-test_faults.$(OBJEXT): %D%/integration/documented_errors.h %D%/integration/named_errors.h

%C%_integration_test_graph_launches_SOURCES = %D%/integration/test_graph_launches.c %D%/integration/graph_job.h
%C%_integration_test_graph_launches_CFLAGS = $(integration_cflags)
%C%_integration_test_graph_launches_LDADD = $(integration_libs)

%C%_integration_test_graph_nodes_SOURCES = %D%/integration/test_graph_nodes.c %D%/integration/graph_job.h
%C%_integration_test_graph_nodes_CFLAGS = $(integration_cflags)
%C%_integration_test_graph_nodes_LDADD = $(integration_libs)

%C%_integration_test_graphs_SOURCES = %D%/integration/test_graphs.c
%C%_integration_test_graphs_CFLAGS = $(integration_cflags)
%C%_integration_test_graphs_LDADD = $(integration_libs)

%C%_integration_test_host_pools_SOURCES = %D%/integration/test_host_pools.c
%C%_integration_test_host_pools_CFLAGS = $(integration_cflags)
%C%_integration_test_host_pools_LDADD = $(integration_libs)

%C%_integration_test_kernels_SOURCES = %D%/integration/test_kernels.c
%C%_integration_test_kernels_CFLAGS = $(integration_cflags)
%C%_integration_test_kernels_LDADD = $(integration_libs)

%C%_integration_test_long_run_SOURCES = %D%/integration/test_long_run.c
%C%_integration_test_long_run_CFLAGS = $(integration_cflags)
%C%_integration_test_long_run_LDADD = $(integration_libs)

%C%_integration_test_open_SOURCES = %D%/integration/test_open.c
%C%_integration_test_open_CPPFLAGS = $(AM_CPPFLAGS) -DOPEN_TABLE='"$(abs_top_srcdir)/%D%/integration/open.table"'
%C%_integration_test_open_CFLAGS = $(integration_cflags)
%C%_integration_test_open_LDADD = $(integration_libs)

%C%_integration_test_pinned_SOURCES = %D%/integration/test_pinned.c
%C%_integration_test_pinned_CFLAGS = $(integration_cflags)
%C%_integration_test_pinned_LDADD = $(integration_libs)

# It is a planner itself, and starts the real one.
%C%_integration_test_planner_SOURCES = %D%/integration/test_planner.c
%C%_integration_test_planner_CPPFLAGS = $(AM_CPPFLAGS) -DPLANNER='"$(abs_top_builddir)/cache/tools/hbmspill-plan"'
%C%_integration_test_planner_CFLAGS = $(integration_cflags)
%C%_integration_test_planner_LDADD = cache/libcache.la $(integration_libs)
EXTRA_%C%_integration_test_planner_DEPENDENCIES = cache/tools/hbmspill-plan$(EXEEXT)

%C%_integration_test_queries_SOURCES = %D%/integration/test_queries.c
%C%_integration_test_queries_CFLAGS = $(integration_cflags)
%C%_integration_test_queries_LDADD = $(integration_libs)

# A libnuma of another machine: the job opens it by its path, and the name is found to be open from then on.
check_LTLIBRARIES += %D%/integration/libnuma.la
%C%_integration_libnuma_la_SOURCES = %D%/integration/fake_numa.c
%C%_integration_libnuma_la_LDFLAGS = -shared -rpath /nowhere -version-info 1:0:0
%C%_integration_test_numa_SOURCES = %D%/integration/test_numa.c
%C%_integration_test_numa_CPPFLAGS = $(AM_CPPFLAGS) \
	-DFAKE_NUMA='"$(abs_top_builddir)/%D%/integration/.libs/libnuma.so.1"'
%C%_integration_test_numa_CFLAGS = $(integration_cflags)
%C%_integration_test_numa_LDADD = $(integration_libs)

# The CUDA runtime as it is linked into programs, and as a library.
check_LTLIBRARIES += %D%/integration/runtime_host.la
%C%_integration_runtime_host_la_SOURCES = %D%/integration/runtime_host.c %D%/integration/runtime_find.h
%C%_integration_runtime_host_la_CFLAGS = $(AM_CFLAGS) -fvisibility=default
%C%_integration_runtime_host_la_LDFLAGS = -module -avoid-version -shared -rpath /nowhere
%C%_integration_test_runtime_host_SOURCES = %D%/integration/test_runtime_host.c %D%/integration/runtime_host.c
%C%_integration_test_runtime_host_CPPFLAGS = $(AM_CPPFLAGS) \
	-DRUNTIME_LIBRARY='"$(abs_top_builddir)/%D%/integration/.libs/runtime_host.so"'
%C%_integration_test_runtime_host_CFLAGS = $(integration_cflags)
%C%_integration_test_runtime_host_LDADD = $(integration_libs)

check_LTLIBRARIES += %D%/integration/libruntime.la
%C%_integration_libruntime_la_SOURCES = %D%/integration/runtime_device.c %D%/integration/runtime_find.h
%C%_integration_libruntime_la_CFLAGS = $(AM_CFLAGS) -fvisibility=default
%C%_integration_libruntime_la_LDFLAGS = -avoid-version -shared -rpath /nowhere
%C%_integration_test_runtime_SOURCES = %D%/integration/test_runtime.c %D%/integration/runtime_find.h
%C%_integration_test_runtime_CFLAGS = $(integration_cflags)
%C%_integration_test_runtime_LDADD = %D%/integration/libruntime.la $(integration_libs)
%C%_integration_test_runtime_LDFLAGS = -no-install

%C%_integration_test_own_heap_SOURCES = %D%/integration/test_own_heap.c
%C%_integration_test_own_heap_CFLAGS = $(integration_cflags)
%C%_integration_test_own_heap_LDADD = $(integration_libs)

%C%_integration_test_seldom_SOURCES = %D%/integration/test_seldom.c
%C%_integration_test_seldom_CFLAGS = $(integration_cflags)
%C%_integration_test_seldom_LDADD = $(integration_libs)

%C%_integration_test_streams_SOURCES = %D%/integration/test_streams.c
%C%_integration_test_streams_CFLAGS = $(integration_cflags)
%C%_integration_test_streams_LDADD = $(integration_libs)

%C%_integration_test_submitting_SOURCES = %D%/integration/test_submitting.c
%C%_integration_test_submitting_CFLAGS = $(integration_cflags)
%C%_integration_test_submitting_LDADD = $(integration_libs)

%C%_integration_test_threads_SOURCES = %D%/integration/test_threads.c
%C%_integration_test_threads_CFLAGS = $(integration_cflags)
%C%_integration_test_threads_LDADD = $(integration_libs)

%C%_integration_test_rounds_SOURCES = %D%/integration/test_rounds.c
%C%_integration_test_rounds_CFLAGS = $(integration_cflags)
%C%_integration_test_rounds_LDADD = $(integration_libs)

%C%_integration_test_verify_SOURCES = %D%/integration/test_verify.c %D%/integration/fault_graphs.c \
	%D%/integration/fault_job.h %D%/integration/fault_jobs.c %D%/integration/fault_jobs.h
%C%_integration_test_verify_CFLAGS = $(integration_cflags)
%C%_integration_test_verify_LDADD = $(integration_libs)

%C%_integration_test_tail_SOURCES = %D%/integration/test_tail.c
%C%_integration_test_tail_CFLAGS = $(integration_cflags)
%C%_integration_test_tail_LDADD = $(integration_libs)

%C%_integration_test_window_SOURCES = %D%/integration/test_window.c
%C%_integration_test_window_CFLAGS = $(integration_cflags)
%C%_integration_test_window_LDADD = $(integration_libs)

if HAVE_CHECK
TESTS += %D%/integration/test_admit
endif
dist_check_SCRIPTS += %D%/integration/test_admit
EXTRA_DIST += scripts/gpu-admit %D%/integration/open.table
