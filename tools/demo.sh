#!/usr/bin/env bash
# A guided tour: starts a service on a temporary folder and a free port, makes a repository, backs sample data up and shows
# the log. Every command is printed before it runs. The service stays until Ctrl-C; DEMO_EXIT=1 ends it at the end.
# shellcheck disable=SC2016 # commands are printed as they stand and expanded when they run
set -euo pipefail

HOLDFAST=$(cd "$(dirname "$0")/.." && pwd)/.venv/bin
DEMO=$(mktemp -d "${TMPDIR:-/tmp}/holdfast-demo-XXXXXX")
URL='' JOB=''
service=''

# The tour must not touch a real installation: of the environment only the engine programs count.
for name in $(compgen -e HOLDFAST_ || true); do
    case $name in HOLDFAST_BORG1 | HOLDFAST_BORG2) ;; *) unset "$name" ;; esac
done

finish() {
    trap - EXIT INT TERM
    if [ -n "$service" ] && kill "$service" 2>/dev/null; then wait "$service" 2>/dev/null || true; fi
    rm -rf "$DEMO"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

title() { printf '\n\033[1m%s\033[0m\n' "$*"; }

run() { # print a command as it stands, then run it
    printf '\033[36m$ %s\033[0m\n' "$1"
    eval "$1"
}

pretty() { "$HOLDFAST/python" -m json.tool --no-ensure-ascii; }

field() { "$HOLDFAST/python" -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }

wait_for_service() {
    for _ in $(seq 600); do
        URL=$(sed -n 's/^Holdfast is listening on //p' service.out)
        if [ -n "$URL" ] && curl --output /dev/null "$URL/health/ready" 2>/dev/null; then return; fi
        kill -0 "$service" 2>/dev/null || { cat service.out service.err >&2; exit 1; }
        sleep 0.1
    done
    echo "the service did not get ready" >&2
    exit 1
}

follow() { # show the job until it has ended
    local status='' seen=''
    while :; do
        status=$(curl -H @auth "$URL/api/backup/status/$JOB" | field status)
        if [ "$status" != "$seen" ]; then echo "  job $JOB: $status"; fi
        seen=$status
        case $status in pending | running) sleep 0.2 ;; *) return ;; esac
    done
}

cd "$DEMO"
umask 077
# Quiet, but an error ends the tour and shows the service's answer.
printf '%s\n' silent show-error fail-with-body >.curlrc
export CURL_HOME=$DEMO
echo 'Content-Type: application/json' >json

title "A folder of sample data"
run 'mkdir -p data/letters data/pictures'
run 'for n in $(seq 50); do echo "letter number $n" > data/letters/$n.txt; done'
run 'for n in $(seq 5); do head -c 1000000 /dev/urandom > data/pictures/$n.raw; done'

title "The service, on a folder and a port of its own"
run '"$HOLDFAST/holdfast" serve --port 0 --data-dir service > service.out 2> service.err & service=$!'
wait_for_service
echo "  it listens on $URL"

title "Log in: the first start made the user admin and wrote a password into the data folder"
run 'curl "$URL/api/auth/login" -d username=admin --data-urlencode "password=$(cat service/initial-admin-password)" > login.json'
run 'echo "X-Backup-Authorization: Bearer $(field access_token < login.json)" > auth'

title "That password is for the first login only: choose another, which answers with a new token"
"$HOLDFAST/python" -c 'import secrets; print(secrets.token_urlsafe(12))' >password
printf '{"current_password": "%s", "new_password": "%s"}' "$(cat service/initial-admin-password)" "$(cat password)" >change.json
run 'curl -H @auth -H @json "$URL/api/auth/change-password" -d @change.json > login.json'
run 'echo "X-Backup-Authorization: Bearer $(field access_token < login.json)" > auth'

title "Create a repository (the engine's init runs now)"
cat >repository.json <<JSON
{"name": "Demo", "path": "$DEMO/repository", "passphrase": "correct horse battery staple", "source_paths": ["$DEMO/data"]}
JSON
run 'cat repository.json'
run 'curl -H @auth -H @json "$URL/api/repositories/" -d @repository.json | tee created.json | pretty | sed -n 1,12p'

title "Back it up"
run 'curl -H @auth -H @json "$URL/api/backup/start" -d "{\"repository\": \"$DEMO/repository\"}" | tee job.json | pretty'
JOB=$(field job_id <job.json)

title "Follow it: the status until it has ended"
run 'follow'
run 'curl -H @auth "$URL/api/backup/status/$JOB" | pretty'

title "Its log"
run 'curl -H @auth "$URL/api/backup/logs/$JOB/download"'

if [ "${DEMO_EXIT:-}" = 1 ]; then
    title "The end: the service is stopped and its folder removed"
    exit 0
fi
title "The service goes on at $URL until Ctrl-C"
echo "  user admin, password $(cat password)"
wait "$service"
