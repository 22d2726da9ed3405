# hbmspill(1).
bin_PROGRAMS += %D%/hbmspill
%C%_hbmspill_SOURCES = \
	%D%/doctor.c %D%/doctor.h %D%/doctor_gpu.c %D%/doctor_host.c %D%/doctor_job.c %D%/flags.c %D%/info.c %D%/library.c %D%/main.c %D%/run.c %D%/script.c %D%/tool.h %D%/top.c %D%/top.h %D%/top_look.c %D%/top_print.c shim/live.h \
	shim/options.c shim/options.h shim/options_file.c shim/options_file.h shim/options_log.c shim/options_value.c shim/options_value.h \
	pinned/numa.c pinned/numa.h pinned/system.c pinned/system.h
%C%_hbmspill_CPPFLAGS = $(AM_CPPFLAGS) -DHBMSPILL_VERSION='"$(PACKAGE_VERSION)"' -DHBMSPILL_LIBDIR='"$(libdir)"'

# hbmspill report and plot: programs in Python, and what these consist of. configure links the former into the build directory, where
# the program finds them as where they are installed.
partsdir = $(libexecdir)/hbmspill
dist_parts_SCRIPTS = scripts/bound
dist_parts_DATA = scripts/lib/report.py scripts/lib/plot.py scripts/lib/report_advice.py scripts/lib/report_charts.py scripts/lib/report_files.py \
	scripts/lib/report_page.py scripts/lib/report.css scripts/lib/report.js scripts/lib/reuse.py scripts/lib/timed_trace.py scripts/lib/units.py model/machine.h

# Manual pages, with the tables in them; completion for bash.
noinst_PROGRAMS += %D%/manual
%C%_manual_SOURCES = %D%/flags.c %D%/manual.c %D%/tool.h shim/options.c shim/options.h shim/options_file.c shim/options_file.h shim/options_log.c shim/options_value.c shim/options_value.h
%C%_manual_CPPFLAGS = $(%C%_hbmspill_CPPFLAGS)
man_MANS = doc/hbmspill.1 doc/libhbmspill.7
EXTRA_DIST += doc/hbmspill.1.in doc/libhbmspill.7.in
CLEANFILES += $(man_MANS)
doc/hbmspill.1 doc/libhbmspill.7: %D%/manual$(EXEEXT)
doc/hbmspill.1: doc/hbmspill.1.in
doc/libhbmspill.7: doc/libhbmspill.7.in
doc/hbmspill.1 doc/libhbmspill.7:
	$(AM_V_GEN)$(MKDIR_P) doc && %D%/manual$(EXEEXT) <$(top_srcdir)/$@.in >$@.new && mv $@.new $@
bashcompletiondir = $(datadir)/bash-completion/completions
dist_bashcompletion_DATA = %D%/completion/hbmspill
