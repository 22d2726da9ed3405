#!/usr/bin/env bash
# scripts/with-synthetic-gpu and what it puts in front: options, environment, report, ptxas, the exported names.
set -euo pipefail

source=${srcdir:-.}
run=(env -u SYNTHETIC_GPU_HBM "$source/scripts/with-synthetic-gpu" --build "$PWD")
query=tests/synthetic/query
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

expect() { # WHAT WANTED GOT
    if [ "$2" != "$3" ]; then
        printf 'FAIL %s\n  wanted: %s\n  got:    %s\n' "$1" "$2" "$3"
        failed=1
    fi
}

expect 'memory with a suffix' '0: Synthetic GPU, 512 MiB' "$("${run[@]}" --hbm 512M -- $query)"
expect 'memory without one' '0: Synthetic GPU, 16 MiB' "$("${run[@]}" --hbm 16777216 $query)"
expect 'the default' '0: Synthetic GPU, 4096 MiB' "$("${run[@]}" -- $query)"
expect 'several devices' '2' "$("${run[@]}" --devices 2 -- $query | wc -l)"

for bad in '--link fast' '--link 1' '--link 1,2,3,4' '--link 0,1' '--size-scale 0' '--compute-scale x' '--hbm 1M' '--hbm lots' '--schedule soon' '--schedule random:' '--devices 0' '--host-nodes 2' '--host-nodes 2,2' '--host-nodes 9,0'; do
    status=0
    # shellcheck disable=SC2086 # two words
    "${run[@]}" $bad -- $query >"$work/out" 2>&1 || status=$?
    expect "$bad is refused" 2 "$status"
    grep -q 'wanted' "$work/out" || expect "$bad is explained" 'a line' "$(cat "$work/out")"
done
status=0
"${run[@]}" --nothing -- $query >/dev/null 2>&1 || status=$?
expect 'an unknown option' 2 "$status"
status=0
"${run[@]}" -- sh -c 'exit 7' || status=$?
expect "the command's status" 7 "$status"
status=0
"${run[@]}" --fault cuInit:1:NO_DEVICE -- $query >/dev/null || status=$?
expect 'an injected fault' 1 "$status"

# XLA takes the last of several flags: the user's stand behind.
# shellcheck disable=SC2016 # the inner shell's variable
flags=$(XLA_FLAGS=--xla_gpu_autotune_level=4 "${run[@]}" -- sh -c 'echo "$XLA_FLAGS"')
expect "the user's flag is last" --xla_gpu_autotune_level=4 "${flags##* }"
case $flags in *command_buffer*) expect 'graphs are left alone' '' "$flags" ;; esac

"${run[@]}" --hbm 64M --schedule lazy --report "$work/report-%p.json" -- $query >/dev/null
reports=("$work"/report-*.json)
expect 'one report' 1 "${#reports[@]}"
grep -q '"hbm_bytes": 67108864' "${reports[0]}" || expect 'the report' hbm_bytes "$(cat "${reports[0]}")"
grep -q '"schedule": "lazy"' "${reports[0]}" || expect 'the report' schedule "$(cat "${reports[0]}")"
grep -q '"cuInit": 1' "${reports[0]}" || expect 'the report' cuInit "$(cat "${reports[0]}")"
"${run[@]}" --report "$work/none.json" -- true
[ ! -e "$work/none.json" ] || expect 'no report without cuInit' '' "$(cat "$work/none.json")"

for options in --clock '--link c2c' '--link 1,2' '--link 4,3,2,1' '--compute-scale 2' '--size-scale 100' '--driver-scale 0.5'; do
    # shellcheck disable=SC2086 # two words
    "${run[@]}" $options --report "$work/clock.json" -- $query >/dev/null
    grep -q '"modelled": {' "$work/clock.json" || expect "$options keeps virtual time" modelled "$(cat "$work/clock.json")"
done
grep -q modelled "${reports[0]}" && expect 'no clock without being asked' '' modelled
"${run[@]}" --record "$work/record-%p" -- $query >/dev/null
expect 'an empty record' 'device-record 1 e 0' "$(tr '\n' ' ' <"$(echo "$work"/record-*)" | sed 's/ $//')"

ptxas=$("${run[@]}" -- sh -c 'command -v ptxas')
expect 'ptxas is the stand-in' "$PWD/synthetic/cuda/bin/ptxas" "$ptxas"
"$ptxas" --version | grep -q 'V13\.0\.88' || expect 'its version' V13.0.88 "$("$ptxas" --version)"
printf '.version 8.0\n' >"$work/a.ptx"
"$ptxas" "$work/a.ptx" -o "$work/a.out" -arch=sm_75 --warn-on-spills -v
expect 'PTX and a NUL byte' "$(printf '.version 8.0\n\0' | od -c)" "$(od -c <"$work/a.out")"
status=0
"$ptxas" --input-as-string '.version 99.99' 2>"$work/out" || status=$?
[ $status -ne 0 ] || expect 'the probe fails' 'not 0' $status
grep -q 'Unsupported .version 99.99' "$work/out" || expect 'the probe is answered' Unsupported "$(cat "$work/out")"

# Every function of the list is exported, and nothing else but the profiler's.
grep -oE 'X\(cu[A-Za-z0-9_]+\)' "$source/tests/synthetic/functions.h" | sed 's/X(\(.*\))/\1/' | sort -u >"$work/listed"
nm -D --defined-only synthetic/libcuda.so.1 | awk '$2 == "T" { print $3 }' | grep -v '^cuProfiler' | sort -u >"$work/exported"
expect 'exported functions' '' "$(comm -3 "$work/listed" "$work/exported" | tr '\n' ' ')"

exit $failed
