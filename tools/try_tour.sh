#!/bin/sh
# Starts `make run` in this folder and runs the README's tour against it, as a new user would; then stops it.
#
#   tools/try_tour.sh [PORT]
#
# Prints the seconds until the service responds and until the tour is done. Fails if a line of the tour fails.
set -eu
cd "$(dirname "$0")/.."
port=${1:-18080}
server=http://127.0.0.1:$port
log=$(mktemp)
started=$(date +%s)
elapsed() { echo $(($(date +%s) - started)); }

if curl -s "$server/health/live" >/dev/null; then
    echo "try_tour: something else answers on port $port; choose another: tools/try_tour.sh PORT" >&2
    exit 1
fi
make run PORT="$port" >"$log" 2>&1 &
service=$!
trap 'kill $service 2>/dev/null || true; wait $service || true; rm -f "$log"' EXIT
until curl -sf "$server/health/ready" >/dev/null; do
    kill -0 $service 2>/dev/null || { cat "$log" >&2; echo "try_tour: make run ended early" >&2; exit 1; }
    sleep 1
done
cat "$log"
echo "try_tour: make run answers after $(elapsed) s"
python3 tools/play_documents.py --server "$server" README.md
echo "try_tour: the tour is played after $(elapsed) s"
python3 tools/play_documents.py --server "$server" docs/api.md docs/restore.md
