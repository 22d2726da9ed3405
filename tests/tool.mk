# hbmspill(1), as a user runs it.
check_LTLIBRARIES += %D%/tool/nvtx_injection.la
%C%_tool_nvtx_injection_la_SOURCES = %D%/tool/nvtx_injection.c
%C%_tool_nvtx_injection_la_LDFLAGS = -module -avoid-version -shared -rpath /nowhere
dist_check_SCRIPTS += %D%/tool/test_callsites %D%/tool/test_events %D%/tool/test_page %D%/tool/test_report %D%/tool/test_tool
EXTRA_DIST += %D%/tool/report_job.py
TESTS += %D%/tool/test_callsites %D%/tool/test_events %D%/tool/test_page %D%/tool/test_report %D%/tool/test_tool
