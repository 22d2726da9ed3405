# Programs of scripts/bench hook: built when asked for, run by nothing else.
EXTRA_PROGRAMS = %D%/unit/bench_hook %D%/loader/bench_launch
%C%_unit_bench_hook_SOURCES = %D%/unit/bench_hook.c %D%/unit/fake_device.c %D%/unit/fake_device.h %D%/bench_clock.h
%C%_unit_bench_hook_LDADD = cache/libcache.la
%C%_loader_bench_launch_SOURCES = %D%/loader/bench_launch.c %D%/bench_clock.h

EXTRA_LTLIBRARIES = %D%/loader/bench/libcuda.la
%C%_loader_bench_libcuda_la_SOURCES = %D%/loader/bench_driver.c
%C%_loader_bench_libcuda_la_LDFLAGS = -shared -rpath /nowhere -version-info 1:0:0
