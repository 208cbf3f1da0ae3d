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
memory= # the folder in memory, if there is one

# Services, engines and stores write thousands of small files durably, which takes a sixth of a run's time on a disk. The
# files need 2.5 GB at the end. Only root can mount a folder; /dev/shm is none for restores.
mount_memory() {
    [ "$(id -u)" = 0 ] && [ "$(awk '$1 == "MemAvailable:" { print int($2 / 1024) }' /proc/meminfo)" -ge 8000 ] || return 1
    for old in /tmp/holdfast-tests-*; do # of runs that failed or were killed
        process=${old#/tmp/holdfast-tests-}
        [ ! -d "$old" ] || [ -d "/proc/${process%%-*}" ] || unmount_memory "$old"
    done
    memory=$(mktemp -d "/tmp/holdfast-tests-$$-XXX") || return 1
    mount -t tmpfs -o size=6g,mode=700 tmpfs "$memory" 2>/dev/null || { rmdir "$memory"; memory=; return 1; }
}

unmount_memory() { umount -l "$1" 2>/dev/null && rmdir "$1" || true; } # folder; whatever still runs keeps its files

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
trap 'rm -rf "$logs"; [ -z "$memory" ] || unmount_memory "$memory"' EXIT
# On the first run, one process compiles the tests for all others, while the checks use the other core.
[ -n "$(find tests -name '*-pytest-*.pyc' -print -quit)" ] || .venv/bin/pytest --collect-only -q >/dev/null 2>&1 || true
tests=0
if mount_memory; then set -- --basetemp="$memory/run" "$@"; fi
.venv/bin/pytest "$@" || tests=$?
status=$tests
if [ $tests != 0 ] && [ -n "$memory" ]; then
    echo "test: the files of the tests stay in $memory/run until the next run"
    memory=
fi
for pair in "$check check" "$schema schema"; do
    if ! wait "${pair% *}"; then
        status=1
        cat "$logs/${pair#* }"
        echo "test: make ${pair#* } FAILED: see above"
    fi
done
exit "$status"
