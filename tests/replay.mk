if HAVE_CHECK
check_PROGRAMS += %D%/unit/test_tape %D%/replay/test_replay
TESTS += %D%/unit/test_tape %D%/replay/test_replay
%C%_unit_test_tape_SOURCES = %D%/unit/test_tape.c
%C%_unit_test_tape_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
%C%_unit_test_tape_LDADD = cache/tools/libreplay.la cache/libcache.la $(CHECK_LIBS)
%C%_replay_test_replay_SOURCES = %D%/replay/test_replay.c
%C%_replay_test_replay_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
%C%_replay_test_replay_LDADD = cache/tools/libreplay.la cache/libcache.la $(CHECK_LIBS)

check_PROGRAMS += %D%/replay/test_golden
TESTS += %D%/replay/test_golden
%C%_replay_test_golden_SOURCES = %D%/replay/test_golden.c
%C%_replay_test_golden_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
%C%_replay_test_golden_LDADD = cache/tools/libreplay.la cache/libcache.la $(CHECK_LIBS)

check_PROGRAMS += %D%/replay/test_planned
TESTS += %D%/replay/test_planned
%C%_replay_test_planned_SOURCES = %D%/replay/test_planned.c
%C%_replay_test_planned_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
%C%_replay_test_planned_LDADD = cache/tools/libreplay.la cache/libcache.la $(CHECK_LIBS)

check_PROGRAMS += %D%/replay/test_plan
TESTS += %D%/replay/test_plan
%C%_replay_test_plan_SOURCES = %D%/replay/test_plan.c
%C%_replay_test_plan_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
%C%_replay_test_plan_LDADD = cache/tools/libplan.la cache/libcache.la $(CHECK_LIBS)
endif

dist_check_SCRIPTS += %D%/replay/test_bound
TESTS += %D%/replay/test_bound
EXTRA_DIST += %D%/replay/bound.py scripts/bound
