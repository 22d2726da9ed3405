include tests/synthetic/ptx.mk

# tests/synthetic: the synthetic GPU. Its libraries are shared objects with the names that programs look for, and
# stay in the build tree: $(top_builddir)/synthetic is the directory scripts/with-synthetic-gpu puts in front.

synthetic_ldflags = -no-undefined -rpath $(abs_top_builddir)/synthetic

noinst_LTLIBRARIES += %D%/libcuda.la %D%/libcudart.la %D%/libcudnn.la %D%/libnvidia-ml.la

%C%_libcuda_la_SOURCES = \
	%D%/api.c %D%/attributes.c %D%/batch.c %D%/capture.c %D%/capture.h %D%/clock.c %D%/clock.h %D%/clock_costs.h %D%/context.c %D%/copy.c %D%/defined.c %D%/defined.h %D%/device_runtime.c \
	%D%/driver.h %D%/engine.c %D%/engine.h %D%/engine_beside.c %D%/entry_points.c %D%/errors.c %D%/event.c %D%/event.h %D%/fault.c %D%/fault.h \
	%D%/frames.c %D%/function.c %D%/functions.h %D%/graph.c %D%/graph.h %D%/graph_exec.c %D%/graph_node.c %D%/graph_order.c \
	%D%/graph_run.c %D%/history.c %D%/history.h %D%/host_memory.c %D%/launch.c %D%/launch.h %D%/leaving.c %D%/library.c %D%/memory.c %D%/memory.h \
	%D%/memory_async.c %D%/memory_pool.c %D%/memory_pool.h %D%/memory_vmm.c %D%/module.c %D%/objects.c \
	%D%/options.c %D%/order.c %D%/order.h %D%/per_thread.c %D%/pool_places.c %D%/quiet.c %D%/quiet.h %D%/ranges.c %D%/record.c %D%/record.h %D%/report.c %D%/stream.c \
	%D%/timeline.c %D%/timeline.h %D%/timeline_cost.c %D%/touch_list.c %D%/touch_list.h %D%/touches.c %D%/touches.h %D%/unsupported.c %D%/versions.h %D%/window.c %D%/work.c
%C%_libcuda_la_LDFLAGS = $(synthetic_ldflags) -version-info 1:0:0
%C%_libcuda_la_LIBADD = %D%/libptx.la -lpthread

%C%_libcudart_la_SOURCES = %D%/cudart.c
%C%_libcudart_la_LDFLAGS = $(synthetic_ldflags) -version-info 13:0:0
%C%_libcudart_la_LIBADD = %D%/libcuda.la

%C%_libcudnn_la_SOURCES = %D%/cudnn.c
%C%_libcudnn_la_LDFLAGS = $(synthetic_ldflags) -version-info 9:0:0

%C%_libnvidia_ml_la_SOURCES = %D%/nvml.c
%C%_libnvidia_ml_la_LDFLAGS = $(synthetic_ldflags) -version-info 1:0:0
%C%_libnvidia_ml_la_LIBADD = %D%/libcuda.la

EXTRA_DIST += %D%/README.md %D%/ptxas %D%/sitecustomize.py scripts/with-synthetic-gpu

# The directory of libraries, ptxas and Python start-up, as links.
noinst_DATA = synthetic/stamp
CLEANFILES += synthetic/stamp
synthetic/stamp: %D%/libcuda.la %D%/libcudart.la %D%/libcudnn.la %D%/libnvidia-ml.la %D%/local.mk
	$(AM_V_GEN)mkdir -p synthetic/cuda/bin synthetic/python && \
	for library in libcuda.so.1 libcudart.so.13 libcudnn.so.9 libnvidia-ml.so.1; do \
	    ln -sf ../%D%/.libs/$$library synthetic/$$library || exit 1; \
	done && \
	ln -sf ../%D%/.libs/libcudart.so.13 synthetic/libcudart.so.12 && \
	ln -sf $(abs_top_srcdir)/%D%/ptxas synthetic/cuda/bin/ptxas && \
	ln -sf $(abs_top_srcdir)/%D%/sitecustomize.py synthetic/python/sitecustomize.py && \
	touch $@

if HAVE_CHECK
synthetic_tests = %D%/test_beside %D%/test_clock %D%/test_clock_repeat %D%/test_vmm %D%/test_pool %D%/test_pool_host %D%/test_stream %D%/test_copy %D%/test_graph %D%/test_errors \
	%D%/test_hazards \
	%D%/test_hazards_memory
check_PROGRAMS += $(synthetic_tests)
TESTS += $(synthetic_tests)
synthetic_test_cflags = $(AM_CFLAGS) $(CHECK_CFLAGS)
synthetic_test_libs = %D%/libcuda.la $(CHECK_LIBS)
%C%_test_beside_SOURCES = %D%/test_beside.c %D%/test_gpu.h
%C%_test_beside_CFLAGS = $(synthetic_test_cflags)
%C%_test_beside_LDADD = $(synthetic_test_libs) -lpthread
%C%_test_clock_SOURCES = %D%/test_clock.c %D%/test_clock.h %D%/test_gpu.h
%C%_test_clock_CFLAGS = $(synthetic_test_cflags)
%C%_test_clock_LDADD = $(synthetic_test_libs)
%C%_test_clock_repeat_SOURCES = %D%/test_clock_repeat.c %D%/test_clock.h %D%/test_gpu.h
%C%_test_clock_repeat_CFLAGS = $(synthetic_test_cflags)
%C%_test_clock_repeat_LDADD = $(synthetic_test_libs) -lpthread
%C%_test_vmm_SOURCES = %D%/test_vmm.c %D%/test_gpu.h
%C%_test_vmm_CFLAGS = $(synthetic_test_cflags)
%C%_test_vmm_LDADD = $(synthetic_test_libs)
%C%_test_pool_SOURCES = %D%/test_pool.c %D%/test_gpu.h
%C%_test_pool_CFLAGS = $(synthetic_test_cflags)
%C%_test_pool_LDADD = $(synthetic_test_libs)
%C%_test_pool_host_SOURCES = %D%/test_pool_host.c %D%/test_gpu.h
%C%_test_pool_host_CFLAGS = $(synthetic_test_cflags)
%C%_test_pool_host_LDADD = $(synthetic_test_libs)
%C%_test_stream_SOURCES = %D%/test_stream.c %D%/test_gpu.h
%C%_test_stream_CFLAGS = $(synthetic_test_cflags)
%C%_test_stream_LDADD = $(synthetic_test_libs)
%C%_test_copy_SOURCES = %D%/test_copy.c %D%/test_gpu.h
%C%_test_copy_CFLAGS = $(synthetic_test_cflags)
%C%_test_copy_LDADD = $(synthetic_test_libs)
%C%_test_graph_SOURCES = %D%/test_graph.c %D%/test_gpu.h
%C%_test_graph_CFLAGS = $(synthetic_test_cflags)
%C%_test_graph_LDADD = $(synthetic_test_libs)
%C%_test_hazards_SOURCES = %D%/test_hazards.c %D%/planted.h %D%/test_gpu.h
%C%_test_hazards_CFLAGS = $(synthetic_test_cflags)
%C%_test_hazards_LDADD = $(synthetic_test_libs) -lpthread
%C%_test_hazards_memory_SOURCES = %D%/test_hazards_memory.c %D%/planted.h %D%/test_gpu.h
%C%_test_hazards_memory_CFLAGS = $(synthetic_test_cflags)
%C%_test_hazards_memory_LDADD = $(synthetic_test_libs)
%C%_test_errors_SOURCES = %D%/test_errors.c %D%/test_gpu.h
%C%_test_errors_CFLAGS = $(synthetic_test_cflags)
%C%_test_errors_LDADD = $(synthetic_test_libs)
endif

check_PROGRAMS += %D%/query
%C%_query_SOURCES = %D%/query.c
%C%_query_LDADD = -ldl
TESTS += %D%/test_runtime.sh %D%/test_jax_time.sh
EXTRA_DIST += %D%/test_runtime.sh %D%/test_jax_time.sh
