# The wrappers of driver functions, one file per API family.
libhbmspill_la_SOURCES += \
	%D%/admit.c %D%/admit.h %D%/alloc.c %D%/alloc.h %D%/behind.c %D%/behind.h %D%/capture.c %D%/capture.h %D%/context.c %D%/copy.c %D%/counters.h %D%/device_cuda.c %D%/device_host.c %D%/device_host.h %D%/event.c %D%/events.c %D%/events.h %D%/events_lanes.c %D%/events_lanes.h %D%/events_timers.c %D%/events_timers.h %D%/gpu.c %D%/gpu.h \
	%D%/graph.c %D%/graph.h %D%/graph_change.c %D%/graph_exec.c %D%/graph_launch.c \
	%D%/graph_names.c %D%/graph_names.h %D%/graph_node.c %D%/graph_program.c %D%/graph_program.h %D%/graph_read.c %D%/gzip.c %D%/gzip.h %D%/held.c %D%/held.h \
	%D%/host_account.c %D%/host_account.h %D%/host_alloc.c %D%/host_alloc.h %D%/host_memory.c %D%/host_memory.h %D%/host_pool.c %D%/host_pool.h %D%/host_table.c %D%/host_table.h %D%/image.c %D%/image.h %D%/kernel.c %D%/kernel.h %D%/kernels_table.c %D%/kernels_table.h %D%/launch.c %D%/launch_old.c %D%/link.c %D%/link.h %D%/live.c %D%/live.h \
	%D%/lifecycle.c %D%/module.c %D%/operation.c %D%/operation.h %D%/observe.c %D%/observe.h %D%/outside.c %D%/outside.h %D%/plan_cache.c %D%/plan_cache.h %D%/planner.c %D%/planner.h %D%/pinned.c %D%/pinned.h %D%/pinned_trim.c %D%/pool.c %D%/pool.h \
	%D%/query.c %D%/region.c %D%/region.h %D%/ranges.c %D%/ranges.h %D%/report.c %D%/report.h %D%/report_file.c %D%/report_file.h %D%/retry.h %D%/spawn.c %D%/spawn.h %D%/stream.c %D%/submitting.c %D%/sync_memops.c %D%/sync_memops.h %D%/window.c %D%/window.h %D%/window_hold.c \
	%D%/window_internal.h %D%/window_submit.c %D%/window_tail.c %D%/tensor_map.c %D%/tensor_map.h %D%/touches.h %D%/trace.c %D%/trace.h \
	%D%/touching.c %D%/vmm.c \
	%D%/callsite.c %D%/callsite.h %D%/costs.c %D%/costs.h %D%/symbol.c %D%/symbol.h %D%/text.c %D%/text.h

# The table of kernels as a string of C.
%D%/kernels_table_text.h: %D%/kernels.table
	$(AM_V_GEN)$(MKDIR_P) %D% && sed -e 's/[\\"]/\\&/g' -e 's/.*/"&\\n"/' $(top_srcdir)/%D%/kernels.table >$@.new && mv $@.new $@
BUILT_SOURCES += %D%/kernels_table_text.h
CLEANFILES += %D%/kernels_table_text.h
EXTRA_DIST += %D%/kernels.table
