#!/bin/sh
# Runs the tests, and in parallel `make check` and `make schema`, since tests wait for services and engines a third of
# the time.
#
#   tools/test_all.sh [ARGUMENT OF PYTEST...]
#
# A failed check is reported at once, and its full output at the end. The last line of a good run comes from pytest.
set -eu
cd "$(dirname "$0")/.."
mkdir -p .cache
logs=$(mktemp -d)
folder=$(mktemp -d /tmp/holdfast-tests-XXX) # short, since the names of sockets below it must be

# Services, engines and stores write thousands of small files durably: on a disk, that takes a sixth of a run's time. The
# tests' files need 2.5 GB. A mount that only the tests see is gone when they end, however they end. Agents do not restore
# to /dev, so /dev/shm would not do.
run_tests() { # arguments of pytest; the files are in memory if this user may mount and enough is free
    in_memory='mount -t tmpfs -o size=6g,mode=700 tmpfs "$0" && exec "$@"'
    free=$(awk '$1 == "MemAvailable:" { print int($2 / 1024) }' /proc/meminfo)
    if [ "$free" -ge 8000 ] && unshare --mount sh -c "$in_memory" "$folder" true 2>/dev/null; then
        unshare --mount sh -c "$in_memory" "$folder" .venv/bin/pytest --basetemp="$folder/run" "$@"
    else
        .venv/bin/pytest "$@"
    fi
}

beside() { # target: run it, keep its output, report the result
    begun=$(date +%s)
    status=0
    ${MAKE:-make} --no-print-directory "$1" >"$logs/$1" 2>&1 || status=$?
    if [ $status = 0 ]; then word=passed; else word=FAILED; fi
    cp "$logs/$1" ".cache/$1.log.$$" && mv ".cache/$1.log.$$" ".cache/$1.log" # atomic, even if two run at once
    echo "test: make $1 $word after $(($(date +%s) - begun)) seconds (.cache/$1.log)"
    return $status
}

beside check & check=$!
beside schema & schema=$!
# Background processes do not receive Ctrl-C themselves.
trap 'trap - INT; kill 0' INT
trap 'rm -rf "$logs" "$folder"' EXIT
# On the first run, one process compiles the tests for all others, while the checks use the other core.
[ -n "$(find tests -name '*-pytest-*.pyc' -print -quit)" ] || .venv/bin/pytest --collect-only -q >/dev/null 2>&1 || true
tests=0
run_tests "$@" || tests=$?
status=$tests
for pair in "$check check" "$schema schema"; do
    if ! wait "${pair% *}"; then
        status=1
        cat "$logs/${pair#* }"
        echo "test: make ${pair#* } FAILED: see above"
    fi
done
exit "$status"
