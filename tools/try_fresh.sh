#!/bin/sh
# Runs the first hour on bare machines: `make run`, the commands in the documents, `make demo`, `make test`.
#
#   tools/try_fresh.sh [-s SUITE] [-u USER] [-q]
#
#   Without options: Debian 12 and 13, each as root and as a user with sudo rights; -q leaves out `make test`.
# Prints the duration of each step in seconds, for docs/numbers.md.
set -eu
cd "$(dirname "$0")/.."

suites='bookworm trixie' users='root somebody' quick=
while getopts s:u:q option; do
    case $option in
        s) suites=$OPTARG ;;
        u) users=$OPTARG ;;
        q) quick=yes ;;
        *) sed -n '2,7p' "$0" >&2; exit 2 ;;
    esac
done

# shellcheck disable=SC2016 # expanded on the machine
inside='
set -e
port=$1 quick=$2
tools/try_tour.sh "$port"
DEMO_EXIT=1 make demo >/tmp/demo.log 2>&1 || { tail -n 30 /tmp/demo.log; exit 1; }
echo "try_fresh: make demo is done"
[ -z "$quick" ] || exit 0
begun=$(date +%s)
make test >/tmp/test.log 2>&1 || { tail -n 60 /tmp/test.log; exit 1; }
tail -n 1 /tmp/test.log
echo "try_fresh: make test took $(($(date +%s) - begun)) s, set-up included"
'
port=18080
for suite in $suites; do
    for user in $users; do
        echo "try_fresh: === $suite as $user"
        tools/fresh-machine.sh -s "$suite" -u "$user" sh -c "$inside" sh "$port" "$quick"
        port=$((port + 1))
    done
done
echo "try_fresh: everything passed"
