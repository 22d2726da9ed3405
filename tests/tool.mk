# hbmspill(1), as a user runs it.
dist_check_SCRIPTS += %D%/tool/test_tool
TESTS += %D%/tool/test_tool
