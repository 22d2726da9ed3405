# The preload library: the loader (here), the hooks and the cache, which add their files to the same list.
lib_LTLIBRARIES += libhbmspill.la
libhbmspill_la_SOURCES = \
	%D%/dlsym_entry.S \
	%D%/dlsym_filter.c \
	%D%/entry_hooks.c \
	%D%/environment.c \
	%D%/environment.h \
	%D%/functions.c \
	%D%/functions.h \
	%D%/live.h \
	%D%/loader.h \
	%D%/log.c \
	%D%/log.h \
	%D%/options.c \
	%D%/options.h \
	%D%/options_file.c \
	%D%/options_file.h \
	%D%/options_log.c \
	%D%/options_value.c \
	%D%/options_value.h \
	%D%/memory.c \
	%D%/memory.h \
	%D%/ready.h \
	%D%/runtime_functions.h \
	%D%/shim.c \
	%D%/shim.h \
	%D%/sort.c
# Sanitizers look symbols up while they start, with our dlsym: it cannot be instrumented.
%D%/dlsym_filter.lo: CFLAGS += -fno-sanitize=all
libhbmspill_la_LIBADD =
libhbmspill_la_LDFLAGS = -module -avoid-version -shared -no-undefined -static-libgcc \
	-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free,--wrap=strndup,--wrap=qsort \
	-Wl,--as-needed -Wl,-z,defs -Wl,-z,now -Wl,--version-script=$(top_srcdir)/%D%/libhbmspill.map
EXTRA_libhbmspill_la_DEPENDENCIES = %D%/libhbmspill.map
EXTRA_DIST += %D%/libhbmspill.map
%D%/memory.lo: jemalloc/jemalloc.h
