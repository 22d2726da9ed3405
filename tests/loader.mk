# Tests of the loader layer. The fakes are libraries that the helpers open by name; -rpath makes libtool build
# check libraries as shared ones.
if HAVE_CHECK
loader_unit_tests = %D%/unit/test_options %D%/unit/test_loader_log %D%/unit/test_loader
check_PROGRAMS += $(loader_unit_tests)
TESTS += $(loader_unit_tests)
endif
check_PROGRAMS += %D%/loader/probe %D%/loader/every_hook %D%/loader/every_version %D%/loader/strange
TESTS += %D%/loader/check_library.sh
EXTRA_DIST += %D%/loader/check_library.sh %D%/loader/hook_table %D%/loader/not_wrapped

%C%_unit_test_options_SOURCES = %D%/unit/test_options.c shim/options.c shim/options_file.c shim/options_log.c shim/options_value.c
%C%_unit_test_options_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
%C%_unit_test_options_LDADD = $(CHECK_LIBS)

%C%_unit_test_loader_log_SOURCES = %D%/unit/test_loader_log.c shim/log.c shim/options.c shim/options_file.c shim/options_log.c shim/options_value.c
%C%_unit_test_loader_log_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
%C%_unit_test_loader_log_LDADD = $(CHECK_LIBS)

%C%_unit_test_loader_SOURCES = %D%/unit/test_loader.c %D%/loader/run.c %D%/loader/run.h
%C%_unit_test_loader_CPPFLAGS = $(AM_CPPFLAGS) -DLOADER_DIR='"$(abs_top_builddir)/%D%/loader"' \
	-DSYNTHETIC_DIR='"$(abs_top_builddir)/synthetic"' \
	-DPRELOAD_LIBRARY='"$(PRELOAD_FIRST)$(abs_top_builddir)/.libs/libhbmspill.so"'
%C%_unit_test_loader_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
%C%_unit_test_loader_LDADD = $(CHECK_LIBS)

%C%_loader_probe_SOURCES = %D%/loader/probe.c %D%/loader/probe.h
%C%_loader_strange_SOURCES = %D%/loader/strange.c %D%/loader/probe.h
%C%_loader_every_version_SOURCES = %D%/loader/every_version.c
%C%_loader_every_hook_SOURCES = %D%/loader/every_hook.c

# The typedefs as text, for every_hook.c to count parameters in.
EXTRA_%C%_unit_test_loader_DEPENDENCIES = %D%/loader/typedefs.txt
CLEANFILES += %D%/loader/typedefs.txt
%D%/loader/typedefs.txt: Makefile
	$(AM_V_GEN)$(MKDIR_P) %D%/loader && echo '#include <cudaTypedefs.h>' | \
		$(CPP) $(CUDA_CPPFLAGS) -D__CUDA_API_VERSION_INTERNAL -P - > $@.tmp && mv $@.tmp $@

loader_module = -module -avoid-version -shared -rpath /nowhere
check_LTLIBRARIES += \
	%D%/loader/libcuda.la \
	%D%/loader/libcudart.la \
	%D%/loader/libcudnn.la \
	%D%/loader/constructor.la \
	%D%/loader/deep.la \
	%D%/loader/fake_every.la \
	%D%/loader/fake_forward.la \
	%D%/loader/interposer.la \
	%D%/loader/next_lower.la \
	%D%/loader/next_middle.la \
	%D%/loader/next_upper.la \
	%D%/loader/static_runtime.la
%C%_loader_libcuda_la_SOURCES = %D%/loader/fake_cuda.c
%C%_loader_libcuda_la_LDFLAGS = -shared -rpath /nowhere -version-info 1:0:0
%C%_loader_libcudart_la_SOURCES = %D%/loader/fake_cudart.c
%C%_loader_libcudart_la_LDFLAGS = -shared -rpath /nowhere -version-info 13:0:0
%C%_loader_libcudnn_la_SOURCES = %D%/loader/fake_cudnn.c
%C%_loader_libcudnn_la_LDFLAGS = -shared -rpath /nowhere -version-info 9:0:0
%C%_loader_constructor_la_SOURCES = %D%/loader/constructor.c
%C%_loader_constructor_la_LDFLAGS = $(loader_module)
%C%_loader_fake_every_la_SOURCES = %D%/loader/fake_every.c
%C%_loader_fake_every_la_LDFLAGS = $(loader_module)
%C%_loader_fake_forward_la_SOURCES = %D%/loader/fake_forward.c
%C%_loader_fake_forward_la_LDFLAGS = $(loader_module)
%C%_loader_interposer_la_SOURCES = %D%/loader/interposer.c
%C%_loader_interposer_la_LDFLAGS = $(loader_module)
%C%_loader_next_lower_la_SOURCES = %D%/loader/next_lower.c
%C%_loader_next_lower_la_LDFLAGS = $(loader_module)
%C%_loader_next_upper_la_SOURCES = %D%/loader/next_upper.c
%C%_loader_next_upper_la_LDFLAGS = $(loader_module)
# The same wrapper once more: one finds the other, and that one what it wraps.
%C%_loader_next_middle_la_SOURCES = %D%/loader/next_upper.c
%C%_loader_next_middle_la_LDFLAGS = $(loader_module)
%C%_loader_deep_la_SOURCES = %D%/loader/deep.c
%C%_loader_deep_la_LDFLAGS = $(loader_module)
%C%_loader_static_runtime_la_SOURCES = %D%/loader/static_runtime.c
%C%_loader_static_runtime_la_LDFLAGS = $(loader_module)
