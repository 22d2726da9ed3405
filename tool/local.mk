# hbmspill(1).
bin_PROGRAMS += %D%/hbmspill
%C%_hbmspill_SOURCES = \
	%D%/flags.c %D%/info.c %D%/library.c %D%/main.c %D%/run.c %D%/tool.h \
	shim/options.c shim/options.h shim/options_file.c shim/options_file.h
%C%_hbmspill_CPPFLAGS = $(AM_CPPFLAGS) -DHBMSPILL_VERSION='"$(PACKAGE_VERSION)"' -DHBMSPILL_LIBDIR='"$(libdir)"'
