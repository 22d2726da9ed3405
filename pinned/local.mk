# Pinned host memory: how much, where, and who has it.
noinst_LTLIBRARIES += %D%/libpinned.la
%C%_libpinned_la_SOURCES = \
	%D%/budget.c \
	%D%/budget.h \
	%D%/extent.c \
	%D%/extent.h \
	%D%/numa.c \
	%D%/numa.h \
	%D%/pool.c \
	%D%/pool.h \
	%D%/ranges.c \
	%D%/ranges.h \
	%D%/small.c \
	%D%/small.h \
	%D%/system.c \
	%D%/system.h \
	%D%/touch.c \
	%D%/touch.h
libhbmspill_la_LIBADD += %D%/libpinned.la

# jemalloc under a prefix, made by the script from Debian's source. By -Wl so that libtool takes the archive as it is;
# what it exports is hidden by the library's version script.
JEMALLOC_LIBS = jemalloc/libhbmje.a
jemalloc/libhbmje.a: $(top_srcdir)/scripts/lib/jemalloc
	$(AM_V_GEN)$(top_srcdir)/scripts/lib/jemalloc jemalloc >jemalloc.log 2>&1 || { tail -n 20 jemalloc.log; exit 1; }
jemalloc/jemalloc.h: jemalloc/libhbmje.a
	@touch $@
%D%/small.lo: jemalloc/jemalloc.h
libhbmspill_la_LDFLAGS += -Wl,$(JEMALLOC_LIBS)
EXTRA_libhbmspill_la_DEPENDENCIES += $(JEMALLOC_LIBS)
