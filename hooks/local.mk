# The wrappers of driver functions, one file per API family.
libhbmspill_la_SOURCES += \
	%D%/lifecycle.c
