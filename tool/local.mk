# hbmspill(1).
bin_PROGRAMS += %D%/hbmspill
%C%_hbmspill_SOURCES = \
	%D%/doctor.c %D%/doctor.h %D%/doctor_gpu.c %D%/doctor_host.c %D%/doctor_job.c %D%/flags.c %D%/info.c %D%/library.c %D%/main.c %D%/run.c %D%/tool.h \
	shim/options.c shim/options.h shim/options_file.c shim/options_file.h \
	pinned/numa.c pinned/numa.h pinned/system.c pinned/system.h
%C%_hbmspill_CPPFLAGS = $(AM_CPPFLAGS) -DHBMSPILL_VERSION='"$(PACKAGE_VERSION)"' -DHBMSPILL_LIBDIR='"$(libdir)"'
