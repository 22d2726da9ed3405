noinst_LTLIBRARIES += %D%/libcache.la
%C%_libcache_la_SOURCES = \
	%D%/borrow.c \
	%D%/borrow.h \
	%D%/cache.c \
	%D%/cache.h \
	%D%/copy.c \
	%D%/cycle.c \
	%D%/cycle.h \
	%D%/cycle_file.c \
	%D%/cycle_greedy.c \
	%D%/cycle_greedy.h \
	%D%/cycle_greedy_emit.c \
	%D%/cycle_greedy_gaps.c \
	%D%/cycle_greedy_link.c %D%/cycle_greedy_tree.c \
	%D%/dearest.c \
	%D%/dearest.h \
	%D%/device_ops.h \
	%D%/edges.h \
	%D%/frame.c \
	%D%/frame.h \
	%D%/history.c \
	%D%/history.h \
	%D%/home.c \
	%D%/home.h \
	%D%/home_stays.c \
	%D%/home_stays.h \
	%D%/internal.h \
	%D%/known.c \
	%D%/known.h \
	%D%/known_distance.c \
	%D%/operation.c \
	%D%/operation.h \
	%D%/plan.c \
	%D%/plan.h \
	%D%/plan_known.c \
	%D%/plan_run.c \
	%D%/plan_window.c \
	%D%/policy.h \
	%D%/policy_bip.c \
	%D%/policy_lru.c \
	%D%/policy_nextuse.c \
	%D%/residency.c \
	%D%/room.c \
	%D%/room.h \
	%D%/segment.c \
	%D%/segment.h \
	%D%/slot.c \
	%D%/slot.h \
	%D%/stall.c \
	%D%/stall.h \
	%D%/statistics.h \
	%D%/stream.c \
	%D%/stream.h \
	%D%/timing.c \
	%D%/timing.h
libhbmspill_la_LIBADD += %D%/libcache.la
