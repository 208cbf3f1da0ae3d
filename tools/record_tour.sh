#!/bin/sh
# Records docs/tour.md again on a bare Debian 12, as a user with sudo rights. Needs root. Commit first: the machine gets
# a clone.
#
#   tools/record_tour.sh [PORT]
set -eu
cd "$(dirname "$0")/.."
port=${1:-18099}
recording=$(mktemp)
trap 'rm -f "$recording"' EXIT
# shellcheck disable=SC2016 # expanded on the machine
tools/fresh-machine.sh -s bookworm -u somebody sh -c '
    make run PORT="$1" >/tmp/run.log 2>&1 &
    service=$!
    until curl -sf "http://127.0.0.1:$1/health/ready" >/dev/null; do
        kill -0 $service 2>/dev/null || { cat /tmp/run.log >&2; exit 1; }
        sleep 1
    done
    python3 tools/record_tour.py --server "http://127.0.0.1:$1" --run-log /tmp/run.log --system "a bare Debian 12"
    kill $service' sh "$port" >"$recording"
cat "$recording" >docs/tour.md
