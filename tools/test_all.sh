#!/bin/sh
# Runs the tests, and beside them `make check` and `make schema`: tests wait for services and engines a third of their time.
#
#   tools/test_all.sh [ARGUMENT OF PYTEST...]
#
# A check that fails is reported at once, and all of its output at the end. The last line of a good run is pytest's own.
set -eu
cd "$(dirname "$0")/.."
mkdir -p .cache
logs=$(mktemp -d)

beside() { # target: run it, keep its output, say how it ended
    begun=$(date +%s)
    status=0
    ${MAKE:-make} --no-print-directory "$1" >"$logs/$1" 2>&1 || status=$?
    if [ $status = 0 ]; then word=passed; else word=FAILED; fi
    cp "$logs/$1" ".cache/$1.log.$$" && mv ".cache/$1.log.$$" ".cache/$1.log" # whole, also when two run at once
    echo "test: make $1 $word after $(($(date +%s) - begun)) seconds (.cache/$1.log)"
    return $status
}

beside check & check=$!
beside schema & schema=$!
# What runs in the background hears no Ctrl-C of its own.
trap 'trap - INT; kill 0' INT
trap 'rm -rf "$logs"' EXIT
# On the first run one process compiles the tests for all of them, while the checks have the other core.
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
