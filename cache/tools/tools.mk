# Programs that run the cache without a GPU.
noinst_LTLIBRARIES += %D%/libreplay.la
%C%_libreplay_la_SOURCES = \
	cache/tape.c %D%/machine.h %D%/replay.c %D%/replay.h %D%/simulation.c %D%/simulation.h
bin_PROGRAMS += %D%/hbmspill-replay
%C%_hbmspill_replay_SOURCES = %D%/hbmspill-replay.c
%C%_hbmspill_replay_LDADD = %D%/libreplay.la cache/libcache.la -lpthread
