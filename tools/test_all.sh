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
trap 'rm -rf "$logs"' EXIT
# On the first run, one process compiles the tests for all others, while the checks use the other core.
[ -n "$(find tests -name '*-pytest-*.pyc' -print -quit)" ] || .venv/bin/pytest --collect-only -q >/dev/null 2>&1 || true
tests=0
.venv/bin/pytest "$@" || tests=$?
status=$tests
for pair in "$check check" "$schema schema"; do
    if ! wait "${pair% *}"; then
        status=1
        cat "$logs/${pair#* }"
        echo "test: make ${pair#* } FAILED: see above"
    fi
done
exit "$status"
