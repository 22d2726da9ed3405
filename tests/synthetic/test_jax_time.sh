#!/usr/bin/env bash
# A JAX training job takes the same virtual time twice, to the nanosecond, whatever schedule runs it, and the
# record of both runs has the same kernels with the same durations.
set -euo pipefail

source=${srcdir:-.}
python=${PYTHON:-$PWD/venv/bin/python}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ -x "$python" ] || {
    echo "no Python with JAX: $python (scripts/setup makes it)"
    exit 77
}

# run NAME OPTION...
run() {
    local name=$1
    shift
    if ! "$source/scripts/with-synthetic-gpu" --build "$PWD" --link pcie5 --size-scale 100 --record "$work/$name.record" \
        --report "$work/$name.json" "$@" -- "$python" "$source/scripts/demo_train.py" --steps 2 --width 256 --layers 1 \
        >"$work/$name.log" 2>&1; then
        tail -n 20 "$work/$name.log"
        exit 1
    fi
    # Not host_waited_ns: what XLA's timer still asks while the process ends, and the host does not wait meanwhile, is up to real time.
    grep -E '"makespan_ns"|"device": 0' "$work/$name.json" >"$work/$name.times"
    # A very busy machine: what is compared may differ then.
    grep '"threads_not_waited_for": [^0]' "$work/$name.json" || true
    grep -E '^(n|l|a) ' "$work/$name.record" >"$work/$name.kernels"
}

run eager
run lazy --schedule lazy
run random --schedule random:3
cat "$work/eager.times"
failed=0
for name in lazy random; do
    for what in times kernels; do
        if ! diff "$work/eager.$what" "$work/$name.$what"; then
            echo "FAIL $what under another schedule ($name)"
            failed=1
        fi
    done
done
kernels=$(grep -c '^l ' "$work/eager.kernels")
if [ "$kernels" -lt 150 ] || grep -q '^l [0-9]* [0-9]* -' "$work/eager.kernels"; then
    echo "FAIL the record has $kernels kernels, or some without a duration"
    failed=1
fi
exit $failed
