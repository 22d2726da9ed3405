# shellcheck shell=bash
# Sourced by the scripts here: where things are, progress lines with the time since the start, steps whose
# output goes to a log and is shown only where they fail. Everything built, downloaded or logged lies in build/.

set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$top/build
# shellcheck disable=SC2034  # for the scripts that source this file
python=$build/venv/bin/python
logs=$build/logs
started=${started:-$SECONDS}

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ] && [ "${TERM:-dumb}" != dumb ]; then
    # shellcheck disable=SC2034
    bold=$'\e[1m' red=$'\e[31m' green=$'\e[32m' plain=$'\e[0m'
else
    # shellcheck disable=SC2034
    bold='' red='' green='' plain=''
fi

# say TEXT...: one progress line.
say() {
    clear_line
    printf '%s[%4d s]%s %s\n' "$bold" $((SECONDS - started)) "$plain" "$*"
}

# What tick has put on the terminal, away.
clear_line() {
    [ ! -t 2 ] || printf '\r\e[K' >&2
}

# tick FILE: for how long it has been running, and the last line of FILE, on one line of the terminal; until it is ended.
tick() {
    local begin=$SECONDS
    while sleep 1 && kill -0 $$ 2>/dev/null; do # an interrupt from the keyboard does not reach it
        printf '\r\e[K         %d s  %.60s' $((SECONDS - begin)) "$(tail -n 1 "$1" 2>/dev/null | tr -dc '[:print:]')" >&2
    done
}

# die TEXT...: what is wrong and what to do about it, on stderr; the script ends with 1.
die() {
    clear_line
    printf '%s%s: %s%s\n' "$red" "$(basename "$0")" "$*" "$plain" >&2
    exit 1
}

# step NAME TEXT COMMAND...: says TEXT, runs COMMAND with its output in the log NAME, ends the script with the
# log's last lines where it fails. Says how long it took where that was two seconds or more. Where stderr is a
# terminal it shows what goes on meanwhile, unless quiet is set: for what runs beside another step.
step() {
    local name=$1 text=$2 begin=$SECONDS status=0 ticker=
    shift 2
    mkdir -p "$logs"
    say "$text"
    if [ -t 2 ] && [ -z "${quiet:-}" ]; then
        tick "$logs/$name.log" &
        ticker=$!
    fi
    "$@" >"$logs/$name.log" 2>&1 </dev/null || status=$?
    if [ -n "$ticker" ]; then
        kill "$ticker" 2>/dev/null || true
        wait "$ticker" 2>/dev/null || true
        clear_line
    fi
    if [ "$status" -ne 0 ]; then
        tail -n 40 "$logs/$name.log" >&2
        die "$text: failed; the whole log is build/logs/$name.log"
    fi
    if [ $((SECONDS - begin)) -ge 2 ]; then
        say "  $name: done in $((SECONDS - begin)) s"
    fi
}

# bytes SIZE: a size such as 96M, 1.5GiB or 1048576 as a whole number of bytes.
bytes() {
    awk -v size="$1" 'BEGIN {
        if (!match(size, /^[0-9]+(\.[0-9]+)?/)) exit 1
        number = substr(size, 1, RLENGTH); unit = toupper(substr(size, RLENGTH + 1))
        sub(/I?B$/, "", unit)
        power = unit == "" ? 0 : index("KMGT", unit)
        if (unit != "" && (length(unit) > 1 || power == 0)) exit 1
        printf "%d\n", number * 1024 ^ power
    }'
}
