# hbmspill(1), as a user runs it.
dist_check_SCRIPTS += %D%/tool/test_events %D%/tool/test_page %D%/tool/test_report %D%/tool/test_tool
EXTRA_DIST += %D%/tool/report_job.py
TESTS += %D%/tool/test_events %D%/tool/test_page %D%/tool/test_report %D%/tool/test_tool
