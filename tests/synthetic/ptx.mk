# The PTX interpreter. The files that loop over lanes are compiled once per level of x86-64 vector instructions. CFLAGS come last and
# have a level of optimization, so the part of -O3 that counts here is named: at -O2 gcc leaves loops whose length varies as they are.
PTX_CFLAGS = $(AM_CFLAGS) -ftree-vectorize -fvect-cost-model=dynamic -ffp-contract=off -fno-math-errno -fno-trapping-math -fno-strict-aliasing

noinst_LTLIBRARIES += %D%/libptx.la %D%/libptx_v2.la %D%/libptx_v3.la %D%/libptx_v4.la %D%/libptx_round.la
%C%_libptx_la_SOURCES = %D%/ptx.h %D%/ptx_ast.h %D%/ptx_ir.h %D%/ptx_lower.h %D%/ptx_run.h \
	%D%/ptx_flow.h %D%/ptx_scan.h %D%/ptx_math.h %D%/ptx_parse.c %D%/ptx_scan.c %D%/ptx_module.c \
	%D%/ptx_lower.c %D%/ptx_lower_integer.c %D%/ptx_lower_float.c %D%/ptx_lower_emit.c \
	%D%/ptx_lower_names.c %D%/ptx_lower_operand.c %D%/ptx_lower_convert.c %D%/ptx_lower_memory.c \
	%D%/ptx_flow.c %D%/ptx_rows.c %D%/ptx_dispatch.c %D%/ptx_run.c %D%/ptx_chunk.c %D%/ptx_warp.c \
	%D%/ptx_atomic.c %D%/ptx_fault.c %D%/ptx_traffic.c
%C%_libptx_la_CFLAGS = $(PTX_CFLAGS)
%C%_libptx_la_LIBADD = %D%/libptx_v2.la %D%/libptx_v3.la %D%/libptx_v4.la %D%/libptx_round.la -lm -lpthread

PTX_LEVEL_SOURCES = %D%/ptx_alu.h %D%/ptx_alu_list.h %D%/ptx_alu.c %D%/ptx_access.c
%C%_libptx_v2_la_SOURCES = $(PTX_LEVEL_SOURCES)
%C%_libptx_v2_la_CPPFLAGS = $(AM_CPPFLAGS) -DPTX_LEVEL=v2
%C%_libptx_v2_la_CFLAGS = $(PTX_CFLAGS) -march=x86-64
%C%_libptx_v3_la_SOURCES = $(PTX_LEVEL_SOURCES)
%C%_libptx_v3_la_CPPFLAGS = $(AM_CPPFLAGS) -DPTX_LEVEL=v3
%C%_libptx_v3_la_CFLAGS = $(PTX_CFLAGS) -march=x86-64-v3
%C%_libptx_v4_la_SOURCES = $(PTX_LEVEL_SOURCES)
%C%_libptx_v4_la_CPPFLAGS = $(AM_CPPFLAGS) -DPTX_LEVEL=v4
%C%_libptx_v4_la_CFLAGS = $(PTX_CFLAGS) -march=x86-64-v4 -mprefer-vector-width=512
%C%_libptx_round_la_SOURCES = %D%/ptx_round.c
%C%_libptx_round_la_CFLAGS = $(PTX_CFLAGS) -frounding-math

noinst_PROGRAMS += %D%/bench_ptx
%C%_bench_ptx_SOURCES = %D%/bench_ptx.c
%C%_bench_ptx_CFLAGS = $(AM_CFLAGS) -ffp-contract=off
%C%_bench_ptx_LDADD = %D%/libptx.la
