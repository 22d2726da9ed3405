# Traces, and programs that run the cache over them without a GPU.
cache_libcache_la_SOURCES += cache/events.h cache/events_write.c cache/tape.h cache/tape_write.c
noinst_LTLIBRARIES += %D%/libreplay.la
%C%_libreplay_la_SOURCES = \
	cache/tape.c cache/tape_rounds.c model/machine.h %D%/arrivals.c %D%/arrivals.h %D%/replay.c %D%/replay.h \
	%D%/replay_internal.h %D%/replay_events.c %D%/replay_operation.c %D%/replay_window.c %D%/replay_tape.c %D%/simulation.c %D%/simulation.h %D%/simulation_internal.h %D%/simulation_ops.c
bin_PROGRAMS += %D%/hbmspill-replay
%C%_hbmspill_replay_SOURCES = %D%/hbmspill-replay.c
%C%_hbmspill_replay_LDADD = %D%/libreplay.la %D%/libplan.la cache/libcache.la -lpthread
