#!/bin/sh
# What the preload library must be for every process it is loaded into: it needs libc alone, exports dlsym alone,
# (Report: tls.) takes no static TLS and has no text relocations.
# usage: check_library.sh LIBRARY
set -u
library=${1:-.libs/libhbmspill.so}
failed=0

complain()
{
    echo "$library: $1"
    failed=1
}

dynamic=$(readelf -dW "$library") || exit 1
echo "$dynamic" | grep -q 'NEEDED.*\[libc\.so\.6\]' || complain "does not need libc.so.6"
others=$(echo "$dynamic" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vxE 'libc\.so\.6|ld-linux-x86-64\.so\.2')
[ -z "$others" ] || complain "needs $others"
echo "$dynamic" | grep -q STATIC_TLS && complain "has the flag STATIC_TLS"
echo "$dynamic" | grep -q TEXTREL && complain "has text relocations"
readelf -lW "$library" | grep -qE 'GNU_STACK.* RWE ' && complain "wants an executable stack"

exported=$(nm -D --defined-only "$library" | awk '{print $NF}')
[ "$exported" = dlsym ] || complain "exports $exported"
exit $failed
