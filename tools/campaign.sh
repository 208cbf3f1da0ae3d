#!/bin/sh
# Runs what takes too long for `make test`, one part after the other, and prints one summary at the end.
#
#   tools/campaign.sh [-n ROUNDS] [-a ARGUMENTS OF PYTEST] [PART...]
#
#   tests     the tests marked `campaign`, those that tests/conftest.py marks, and new examples for tests with hypothesis
#   kills     rounds of killing processes at random moments
#   networks  rounds of a bad network between agent and service
#   fresh     the first hour on bare machines, including `make test` (as root)
#
# Without parts: the first three. A part that fails does not stop the others; the exit code is then 1. The output of
# each part is in .cache/campaign/PART.log; if a part fails, its last lines are printed too.
set -u
cd "$(dirname "$0")/.." || exit 1

rounds=100 arguments=
while getopts n:a: option; do
    case $option in
        n) rounds=$OPTARG ;;
        a) arguments=$OPTARG ;;
        *) sed -n '2,12p' "$0" >&2; exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || set -- tests kills networks

logs=.cache/campaign
mkdir -p $logs
workers=$(($(nproc 2>/dev/null || echo 2) + 1))
bare=
case " $* " in *" fresh "*) bare='--ignore tests/real/test_fresh_machines.py' ;; esac # otherwise it would be run twice

play() { # part
    case $1 in
        # shellcheck disable=SC2086 # lists of words
        tests) eval '.venv/bin/pytest -m "campaign or hypothesis"' --hypothesis-profile campaign -n $workers --dist worksteal $bare $arguments ;;
        kills) .venv/bin/python -m tests.chaos --rounds "$rounds" ;;
        networks) .venv/bin/python -m tests.chaos.partition --rounds "$rounds" ;;
        fresh) tools/try_fresh.sh ;;
        *) echo "campaign: there is no part '$1': tests, kills, networks, fresh"; return 2 ;;
    esac
}

outcome() { # part: its result according to its last lines
    case $1 in
        tests) grep -E '(passed|failed|errors?|no tests ran)\b.* in [0-9.]+s' "$logs/$1.log" | tail -n 1 | sed 's/^=* *//; s/ *=*$//' ;;
        *) tail -n 1 "$logs/$1.log" ;;
    esac
}

began=$(date +%s)
failed=0
: >$logs/summary.txt
for part; do
    echo "campaign: $part begins ($logs/$part.log)"
    begun=$(date +%s)
    if play "$part" >"$logs/$part.log" 2>&1; then word=passed; else word=FAILED failed=$((failed + 1)); fi
    seconds=$(($(date +%s) - begun))
    if [ $word = FAILED ]; then
        tail -n 60 "$logs/$part.log"
        # Only the names, for the summary; parts that do not use pytest have none.
        grep -E '^(FAILED|ERROR) ' "$logs/$part.log" | cut -c 1-200 >"$logs/$part.failed" || true
    fi
    printf '  %-9s %-7s %6d s  %s\n' "$part" "$word" "$seconds" "$(outcome "$part")" >>$logs/summary.txt
    [ $word = passed ] || sed 's/^/      /' "$logs/$part.failed" >>$logs/summary.txt
done

echo
echo "campaign: $# parts, $failed failed, $(($(date +%s) - began)) s"
cat $logs/summary.txt
[ $failed = 0 ]
