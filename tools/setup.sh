#!/bin/sh
# Sets up everything that Holdfast needs on this machine. Each step prints one line, with the seconds since the start.
#
#   tools/setup.sh run     what `make run` needs: the Python environment in .venv and a usable engine
#   tools/setup.sh test    also what `make test` needs: the tools, PostgreSQL (a wheel) and every engine series
#   tools/setup.sh demo    what `make demo` needs: run, and curl
#
# All missing system packages are listed at once. Those needed for builds are installed first; then the other packages,
# the environment, the engines and the test servers in parallel. The output of each step is in .boot/logs. Safe to
# interrupt and to run again: every step checks what exists before it acts.
set -eu

# One line per system package: purpose | package | command that succeeds if it is not needed. To add a package, add a
# line here and its purpose to `needs`.
SYSTEM_PACKAGES='
base   | python3       | have python3
base   | python3-venv  | python3 -c "import ensurepip, venv"
engine | borgbackup    | have_usable_engine
build  | gcc           | have gcc
build  | pkg-config    | have pkg-config
build  | python3-dev   | have_python_headers
build  | libacl1-dev   | pkg-config --exists libacl
build  | liblz4-dev    | pkg-config --exists liblz4
build  | libzstd-dev   | pkg-config --exists libzstd
build  | libxxhash-dev | pkg-config --exists libxxhash
build  | libssl-dev    | pkg-config --exists libcrypto
ssh    | openssh-client | have ssh-keyscan
sshd   | openssh-server | have_sshd
sshd   | iproute2      | have ip
demo   | curl          | have curl
mirror | rclone        | have rclone
docs   | jq            | have jq
web    | chromium-headless-shell | have_browser
proxy  | nginx         | have_nginx
dumps  | sqlite3       | have sqlite3
dumps  | mariadb-server-core | have_mariadbd
dumps  | mariadb-client | have mariadb-dump
'

started=$(date +%s)
elapsed() { echo $(($(date +%s) - started)); }
say() { printf 'setup: [%3d s] %s\n' "$(elapsed)" "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

mode=${1:-run}
case $mode in
    run) needs='base engine ssh' ;;
    demo) needs='base engine ssh demo' ;;
    test) needs='base engine ssh sshd mirror demo docs proxy web dumps' ;; # and `build`, if an engine has to be built
    *) fail "unknown mode '$mode': use run, test or demo" ;;
esac
cd "$(dirname "$0")/.."
root=$PWD
[ -n "${HOME:-}" ] || export HOME="$(getent passwd "$(id -u)" | cut -d : -f 6)" # location of the caches
logs=.boot/logs

# --- checks of what exists ---------------------------------------------------------------------------------------

is_recent_python() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

pinned() { sed -n "s/^$1==\([^ ]*\).*/\1/p" "tools/locks/$2.lock"; } # package, lock: the release pinned by the lock

engine_version() { "$1" --version 2>/dev/null | sed -n 's/^borg \([0-9][0-9a-z.]*\).*/\1/p'; }

engine_is() { # program, series: whether the program belongs to the series
    case $(engine_version "$1") in "$2".*) true ;; *) false ;; esac
}

have_usable_engine() { # the service supports 1.2 and later
    case $(engine_version borg) in 1.[2-9].*) true ;; *) engine_is .engines/borg-1.4/bin/borg 1.4 ;; esac
}

have_sshd() { [ -x /usr/sbin/sshd ] || have sshd; }

# The browser without windows: half the processor time of the full browser, and a third less to download.
have_browser() { have chromium-headless-shell || have chromium; }

have_nginx() { [ -x /usr/sbin/nginx ] || have nginx; }

have_mariadbd() { [ -x /usr/sbin/mariadbd ] || have mariadbd; }

have_python_headers() {
    "$(choose_python)" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))'
}

member_folders() { for file in packages/*/pyproject.toml server/pyproject.toml; do [ ! -f "$file" ] || dirname "$file"; done; }

state_of_inputs() { # one line that changes when any input of the set-up changes
    # shellcheck disable=SC2046 # folder names contain no spaces
    { echo "$root"; cat tools/setup.sh tools/web.sh tools/locks/*.lock requirements.lock requirements-dev.lock \
        $(member_folders | sed 's|$|/pyproject.toml|'); } | sha256sum | cut -d ' ' -f 1
}

engines_for_tests_are_there() {
    [ -x .engines/borg-1.4/bin/borg ] && [ -x .engines/borg-2.0/bin/borg ] || return 1
    [ -x .engines/borg-1.2/bin/borg ] || engine_is borg 1.2
}

tools_for_tests_are_there() {
    have_sshd && have ip && have rclone && have curl && have jq && have_browser && have_nginx && [ -x .boot/s3/bin/moto_server ] && [ -x .boot/clients/bin/openapi-python-client ]
}

everything_is_in_place() {
    tools/web.sh fresh || return 1
    [ "$(cat ".boot/stamp-$mode" 2>/dev/null)" = "$(state_of_inputs)" ] || return 1
    .venv/bin/python -c 'import holdfast, backup_agent, backup_engine, backup_jobs, backup_protocol' 2>/dev/null || return 1
    have borg || [ -x .engines/borg-1.4/bin/borg ] || return 1
    [ "$mode" != test ] || engines_for_tests_are_there || return 1
    [ "$mode" != test ] || tools_for_tests_are_there || return 1
    [ "$mode" != demo ] || have curl
}

# --- system packages ---------------------------------------------------------------------------------------------

missing_packages() { # those of SYSTEM_PACKAGES that are needed for the given purposes and missing
    printf '%s\n' "$SYSTEM_PACKAGES" | while IFS='|' read -r need package probe; do
        need=${need%% *} package=${package# } package=${package%% *}
        case " $* " in *" $need "*) ;; *) continue ;; esac
        [ -n "$package" ] || continue
        eval "$probe" >/dev/null 2>&1 </dev/null || printf '%s ' "$package"
    done
}

may_install() { # as root, or with sudo: it may prompt for a password on a terminal only
    [ "$(id -u)" != 0 ] || return 0
    have sudo || return 1
    if [ -t 0 ]; then sudo -v; else sudo -n true 2>/dev/null; fi
}

apt() { # arguments of apt-get; waits for another apt-get, such as the set-up of another folder
    as_root=
    [ "$(id -u)" = 0 ] || as_root=sudo
    waited=0
    until $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@" \
        >$logs/apt.last 2>&1 </dev/null && cat $logs/apt.last >>$logs/apt.log; do
        cat $logs/apt.last >>$logs/apt.log
        # DPkg::Lock::Timeout waits for dpkg's lock, but not for those of the package lists and downloads.
        grep -qE 'Could not get lock|Unable to lock' $logs/apt.last && [ $waited -lt 300 ] || return 1
        [ $waited != 0 ] || say "waiting for another apt-get to end"
        sleep 1
        waited=$((waited + 1))
    done
}

apt_failed() { # message: report a failure of apt, with this message unless a more specific one applies
    if grep -qE 'Could not (resolve|connect)|Temporary failure resolving|Network is unreachable|Unable to connect' $logs/apt.log; then
        fail "the package server cannot be reached: connect this machine to the internet and run this again (details: $logs/apt.log)"
    fi
    fail "$1 (details: $logs/apt.log)"
}

apt_install() { # packages
    apt install -y --no-install-recommends "$@" || apt_failed "apt-get could not install $*"
}

later= # packages that no other step waits for

need_packages() { # purposes: names all missing packages, and installs those that other steps wait for
    missing=$(missing_packages "$@")
    missing=${missing% }
    [ -n "$missing" ] || return 0
    have apt-get || fail "missing: $missing (Debian's names); this machine has no apt-get, so install them by hand and run this again"
    command="apt-get update && apt-get install -y --no-install-recommends $missing"
    may_install || fail "system packages are missing and this user may not install them: run '$command' as root, then this again"
    say "installing $(echo "$missing" | wc -w) system packages: $missing"
    apt update || say "apt-get update had errors ($logs/apt.log); going on with the package lists that are there"
    first=
    for package in $missing; do
        if is_waited_for "$package"; then first="$first $package"; else later="$later $package"; fi
    done
    # shellcheck disable=SC2086 # a list of names
    [ -z "$first" ] || apt_install $first
    say "system packages installed${later:+, but for those that nothing waits for}"
}

is_waited_for() { printf '%s\n' "$SYSTEM_PACKAGES" | grep -qE "^(base|engine|build) *\| $1 "; } # package

no_package_is_missing() { # purposes; after everything was installed
    missing=$(missing_packages "$@")
    [ -z "$missing" ] || fail "still missing after the installation: $missing"
}

# --- uv, the environment, the engines ----------------------------------------------------------------------------

boot_uv() {
    wanted=$(pinned uv boot)
    case $(.boot/venv/bin/uv --version 2>/dev/null) in "uv $wanted"*) return 0 ;; esac
    say "installing uv $wanted into .boot"
    rm -rf .boot/venv
    { python3 -m venv .boot/venv &&
        .boot/venv/bin/pip install --disable-pip-version-check --require-hashes --requirement tools/locks/boot.lock
    } >$logs/uv.log 2>&1 || step_failed uv
}

uv() { UV_PYTHON_PREFERENCE=system "$root/.boot/venv/bin/uv" --no-progress --no-config "$@"; }

uv_pip() { # the locks pin every file by its hash, so uv's cache is as good as the index
    uv --offline pip "$@" 2>/dev/null || uv pip "$@"
}

# For .venv and the engines: the distribution's Python if it is recent enough, otherwise the first of the PATH, otherwise
# one that uv finds. Version managers compile Python without a profile; the service takes half as long again with it.
choose_python() {
    for candidate in /usr/bin/python3 python3 python3.14 python3.13 python3.12 python3.11; do
        if have "$candidate" && is_recent_python "$candidate"; then command -v "$candidate"; return; fi
    done
    echo '>=3.11'
}

base_of() { "$1" -c 'import sys; print(sys.base_prefix, sys.version)' 2>/dev/null || true; } # a Python, or one to find

make_environment() {
    python=$(choose_python)
    wanted=$(base_of "$python") made=$(base_of .venv/bin/python)
    if is_recent_python .venv/bin/python && [ "$made" = "${wanted:-$made}" ]; then return 0; fi
    say "creating .venv with Python $python"
    uv --quiet venv --clear --python "$python" .venv || fail "Python 3.11 or newer is needed: install one (such as the package python3.12-venv) and run this again"
    rm -f .boot/installed-*
}

lock_to_install() { # installed tools stay: `make run` after `make test` removes nothing
    if [ "$mode" = test ] || [ -f .boot/installed-requirements-dev.lock ]; then echo requirements-dev.lock; else echo requirements.lock; fi
}

install_packages() {
    lock=$(lock_to_install)
    if ! cmp -s "$lock" ".boot/installed-$lock"; then
        rm -f .boot/installed-*
        uv_pip sync --python .venv/bin/python --compile-bytecode --require-hashes "$lock"
        cp "$lock" .boot/installed.new
        mv .boot/installed.new ".boot/installed-$lock"
    fi
    # shellcheck disable=SC2046 # folder names contain no spaces
    uv_pip install --python .venv/bin/python --no-deps --build-constraints tools/locks/build.lock $(member_folders | sed 's|^|--editable |')
}

engine_is_built() { [ "$(engine_version ".engines/borg-$1/bin/borg")" = "$(pinned borgbackup "borg-$1")" ]; }

engines_to_build() { # series to build: the system's 1.2 is good enough; for the others, tests need a fixed release
    engine_is borg 1.2 || engine_is_built 1.2 || echo 1.2
    engine_is_built 1.4 || echo 1.4
    engine_is_built 2.0 || echo 2.0
}

build_engine() { # series: its pinned release, in a separate folder
    folder=.engines/borg-$1
    # For tests: a quick build matters more than a quick program, except for what the engine's self-test runs most.
    export CC="$root/.boot/cc" CFLAGS='-O0 -g0' DIST_EXTRA_CONFIG="$root/.boot/build.cfg"
    uv --quiet venv --clear --python .venv/bin/python "$folder"
    uv_pip install --python "$folder/bin/python" --compile-bytecode --require-hashes \
        --build-constraints tools/locks/build.lock --requirement "tools/locks/borg-$1.lock"
    engine_is_built "$1" || { echo "the engine built into $folder does not run"; return 1; }
}

tool_is_there() { cmp -s "tools/locks/$1.lock" ".boot/$1/installed.lock"; }

install_tool() { # name of a lock: installs a tool of the tests into a separate environment
    uv --quiet venv --clear --python .venv/bin/python ".boot/$1"
    uv_pip install --python ".boot/$1/bin/python" --require-hashes --requirement "tools/locks/$1.lock"
    cp "tools/locks/$1.lock" ".boot/$1/installed.lock"
}

web_pages() { # the service runs without them, so a failed build is fatal only in CI
    tools/web.sh build || { echo "the web pages could not be built"; [ "${CI:-}" != true ]; }
}

# --- steps in parallel -------------------------------------------------------------------------------------------

trap 'trap - INT; kill 0' INT # background processes do not receive Ctrl-C themselves

steps='' # "PID NAME;" for each step that was started and not yet waited for

begin_step() { # name, description, command: runs in the background with output to a file
    name=$1 what=$2
    shift 2
    say "$what"
    (
        set -e
        begun=$(elapsed)
        "$@" >"$logs/$name.log" 2>&1
        say "done in $(($(elapsed) - begun)) s: $what"
    ) &
    steps="$steps$! $name;"
}

finish_steps() { # wait for all steps, then report the first that failed
    failed=
    while [ -n "$steps" ]; do
        step=${steps%%;*}
        steps=${steps#*;}
        wait "${step% *}" || failed=${failed:-${step#* }}
    done
    [ -z "$failed" ] || step_failed "$failed"
}

step_failed() { # name
    [ "$1" != apt-later ] || apt_failed "apt-get could not install ${later# }"
    if grep -qiE 'failed to fetch|error sending request|name resolution|Network is unreachable|No route to host|Could not find a version|connection (refused|timed out|error)|dns error|NewConnectionError' "$logs/$1.log"; then
        fail "the package index cannot be reached: connect this machine to the internet and run this again (details: $logs/$1.log)"
    fi
    tail -n 15 "$logs/$1.log" >&2
    fail "the step '$1' failed: see the lines above, or all of them in $logs/$1.log"
}

# --- the set-up itself -------------------------------------------------------------------------------------------

if everything_is_in_place; then
    printf 'setup: everything is in place\n'
    exit 0
fi
mkdir -p $logs .engines
exec 9>.boot/lock
if ! flock -n 9; then
    say "waiting for another set-up of this folder"
    flock 9
    if everything_is_in_place; then # finished in the meantime
        say "ready"
        exit 0
    fi
fi

state=$(state_of_inputs)
: >$logs/apt.log
todo=
[ "$mode" != test ] || todo=$(engines_to_build)
# shellcheck disable=SC2086 # lists of words
need_packages $needs ${todo:+build}
# shellcheck disable=SC2086
[ -z "$later" ] || begin_step apt-later "installing the other $(echo "$later" | wc -w) system packages" apt_install $later
boot_uv
make_environment
begin_step web "building the web pages" web_pages
begin_step packages "installing the Python packages of $(lock_to_install) into .venv" install_packages
if [ "$mode" = test ]; then
    todo=$(engines_to_build) # the system's engine may have come with the packages
    printf '[build_ext]\nparallel = %s\n' "$(nproc)" >.boot/build.cfg
    printf '#!/bin/sh\ncase "$*" in *chunker*) set -- "$@" -O1 ;; esac\nexec gcc "$@"\n' >.boot/cc
    chmod +x .boot/cc
    for series in $todo; do
        begin_step "borg-$series" "building BorgBackup $(pinned borgbackup "borg-$series") into .engines/borg-$series" build_engine "$series"
    done
    # rclone itself serves every kind of remote except S3
    tool_is_there s3 || begin_step s3 "installing an S3 server for the tests into .boot/s3" install_tool s3
    tool_is_there clients || begin_step clients "installing a generator of API clients into .boot/clients" install_tool clients
fi
finish_steps
# shellcheck disable=SC2086
no_package_is_missing $needs ${todo:+build}
[ -f server/src/holdfast/web/static/index.html ] || say "the web pages are missing ($logs/web.log): the API and the command line work; 'make web' tries again"

for done in run "$mode"; do
    printf '%s\n' "$state" >.boot/stamp.new
    mv .boot/stamp.new ".boot/stamp-$done"
done
say "ready"
