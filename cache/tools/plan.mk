# The planner, which needs Clp: a library of its own, so that nothing else does.
noinst_LTLIBRARIES += %D%/libplan.la
%C%_libplan_la_SOURCES = \
	%D%/plan_lp.c %D%/plan_lp.h %D%/plan_lp_build.c %D%/plan_lp_internal.h %D%/plan_lp_model.c %D%/plan_lp_model.h %D%/plan_lp_solve.c %D%/plan_lp_work.c
%C%_libplan_la_CPPFLAGS = $(AM_CPPFLAGS) $(CLP_CPPFLAGS)
%C%_libplan_la_LIBADD = $(CLP_LIBS)
bin_PROGRAMS += %D%/hbmspill-plan
%C%_hbmspill_plan_SOURCES = %D%/hbmspill-plan.c
%C%_hbmspill_plan_LDADD = %D%/libplan.la cache/libcache.la -lpthread
