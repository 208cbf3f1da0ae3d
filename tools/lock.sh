#!/bin/sh
# Recreates the lock files from the pyproject.toml files: universal, with hashes, without the name of a package index.
# Versions that still satisfy them are kept; `tools/lock.sh --upgrade` takes the newest of everything.
set -eu
cd "$(dirname "$0")/.."

export UV_CUSTOM_COMPILE_COMMAND='make lock'
members=$(for file in packages/*/pyproject.toml server/pyproject.toml; do [ ! -f "$file" ] || echo "$file"; done)
# shellcheck disable=SC2086 # paths contain no spaces
own_names=$(sed -n 's/^name = "\(.*\)"$/--no-emit-package \1/p' $members)

compile() { # lock file, then the inputs
    lock=$1
    shift
    .boot/venv/bin/uv --quiet --no-config pip compile --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --output-file "$lock" "$@" >/dev/null
    echo "lock: $lock ($(grep -c '==' "$lock") packages)"
}

# shellcheck disable=SC2086 # lists of names
compile requirements.lock $members $own_names "$@"
# shellcheck disable=SC2086
compile requirements-dev.lock $members --group dev --constraints requirements.lock $own_names "$@"
for input in tools/locks/*.in; do
    compile "${input%.in}.lock" "$input" "$@"
done
