#!/bin/sh
# Sets up all that Holdfast needs on this machine, and says each thing it does in one line.
#
#   tools/setup.sh run     what `make run` needs: the Python environment in .venv and a usable engine
#   tools/setup.sh test    also what `make test` needs: the tools, PostgreSQL (a wheel) and every engine series
#   tools/setup.sh demo    what `make demo` needs: run, and curl
#
# Safe to interrupt and to run again: every step looks at what is there before it acts.
set -eu

# One line per system package: for what | package | not needed when this command succeeds.
# A later need (sshd, a browser) is one more line here, under `test`.
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
'

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

mode=${1:-run}
case $mode in
    run | test | demo) ;;
    *) fail "unknown mode '$mode': use run, test or demo" ;;
esac
cd "$(dirname "$0")/.."
root=$PWD

# --- what is there already ---------------------------------------------------------------------------------------

is_recent_python() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

pinned() { sed -n "s/^$1==\([^ ]*\).*/\1/p" "tools/locks/$2.lock"; } # package, lock: the release that the lock names

engine_version() { "$1" --version 2>/dev/null | sed -n 's/^borg \([0-9][0-9a-z.]*\).*/\1/p'; }

engine_is() { # program, series: is the program of that series?
    case $(engine_version "$1") in "$2".*) true ;; *) false ;; esac
}

have_usable_engine() { # the service works with 1.2 and later
    case $(engine_version borg) in 1.[2-9].*) true ;; *) engine_is .engines/borg-1.4/bin/borg 1.4 ;; esac
}

have_sshd() { [ -x /usr/sbin/sshd ] || have sshd; }

have_python_headers() {
    python3 -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))'
}

member_folders() { for file in packages/*/pyproject.toml server/pyproject.toml; do [ ! -f "$file" ] || dirname "$file"; done; }

state_of_inputs() { # one line that changes when anything that set-up reads changes
    # shellcheck disable=SC2046 # folder names hold no spaces
    { echo "$root"; cat tools/setup.sh tools/locks/*.lock requirements.lock requirements-dev.lock \
        $(member_folders | sed 's|$|/pyproject.toml|'); } | sha256sum | cut -d ' ' -f 1
}

engines_for_tests_are_there() {
    [ -x .engines/borg-1.4/bin/borg ] && [ -x .engines/borg-2.0/bin/borg ] || return 1
    [ -x .engines/borg-1.2/bin/borg ] || engine_is borg 1.2
}

everything_is_in_place() {
    [ "$(cat ".boot/stamp-$mode" 2>/dev/null)" = "$(state_of_inputs)" ] || return 1
    .venv/bin/python -c 'import holdfast, backup_agent, backup_engine, backup_protocol' 2>/dev/null || return 1
    have borg || [ -x .engines/borg-1.4/bin/borg ] || return 1
    [ "$mode" != test ] || engines_for_tests_are_there || return 1
    [ "$mode" != test ] || { have_sshd && have ip && have rclone && [ -x .boot/s3/bin/moto_server ]; } || return 1
    [ "$mode" != demo ] || have curl
}

# --- system packages ---------------------------------------------------------------------------------------------

missing_packages() { # which of SYSTEM_PACKAGES, for the given needs, are not there
    printf '%s\n' "$SYSTEM_PACKAGES" | while IFS='|' read -r need package probe; do
        need=${need%% *} package=${package# } package=${package%% *}
        case " $* " in *" $need "*) ;; *) continue ;; esac
        [ -n "$package" ] || continue
        eval "$probe" >/dev/null 2>&1 </dev/null || printf '%s ' "$package"
    done
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

apt() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@" >>.boot/apt.log 2>&1 </dev/null
}

need_packages() {
    missing=$(missing_packages "$@")
    [ -n "$missing" ] || return 0
    have apt-get || fail "missing: $missing(Debian's names); this machine has no apt-get, so install them by hand and run this again"
    [ "$(id -u)" = 0 ] || have sudo || fail "missing: ${missing}; run as root: apt-get install $missing"
    mkdir -p .boot
    say "installing system packages: $missing"
    apt update || say "apt-get update had errors (.boot/apt.log); going on with the package lists that are there"
    # shellcheck disable=SC2086 # a list of names
    apt install -y --no-install-recommends $missing || { tail -n 20 .boot/apt.log >&2; fail "apt-get install failed"; }
    missing=$(missing_packages "$@")
    [ -z "$missing" ] || fail "still missing after the installation: $missing"
}

# --- uv, the environment, the engines ----------------------------------------------------------------------------

boot_uv() {
    wanted=$(pinned uv boot)
    case $(.boot/venv/bin/uv --version 2>/dev/null) in "uv $wanted"*) return 0 ;; esac
    say "installing uv $wanted into .boot"
    rm -rf .boot/venv
    python3 -m venv .boot/venv
    .boot/venv/bin/pip install --quiet --quiet --disable-pip-version-check --require-hashes --requirement tools/locks/boot.lock
}

uv() { UV_PYTHON_PREFERENCE=system "$root/.boot/venv/bin/uv" --quiet --no-config "$@"; }

uv_pip() { # the locks pin every file by its hash, so what is in uv's cache is as good as what the index would send
    uv --offline pip "$@" 2>/dev/null || uv pip "$@"
}

choose_python() { # the interpreter for .venv and the engines: the system's if it is recent enough, else one that uv finds
    for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
        if have "$candidate" && is_recent_python "$candidate"; then command -v "$candidate"; return; fi
    done
    echo '>=3.11'
}

make_environment() {
    if is_recent_python .venv/bin/python; then return 0; fi
    python=$(choose_python)
    say "creating .venv with Python $python"
    uv venv --clear --python "$python" .venv || fail "Python 3.11 or newer is needed: install one (such as the package python3.12-venv) and run this again"
    rm -f .boot/installed-*
}

lock_to_install() { # the tools stay once they are there: `make run` after `make test` takes nothing away
    if [ "$mode" = test ] || [ -f .boot/installed-requirements-dev.lock ]; then echo requirements-dev.lock; else echo requirements.lock; fi
}

install_packages() {
    lock=$(lock_to_install)
    if ! cmp -s "$lock" ".boot/installed-$lock"; then
        say "installing the Python packages of $lock into .venv"
        rm -f .boot/installed-*
        uv_pip sync --python .venv/bin/python --compile-bytecode --require-hashes "$lock"
        cp "$lock" .boot/installed.new
        mv .boot/installed.new ".boot/installed-$lock"
    fi
    members=$(member_folders | tr '\n' ' ')
    say "installing into .venv, editable: $members"
    # shellcheck disable=SC2046,SC2086 # folder names hold no spaces
    uv_pip install --python .venv/bin/python --no-deps --build-constraints tools/locks/build.lock $(printf -- '--editable %s ' $members)
}

engine_is_built() { [ "$(engine_version ".engines/borg-$1/bin/borg")" = "$(pinned borgbackup "borg-$1")" ]; }

build_engine() { # series: its pinned release, into a folder of its own
    folder=.engines/borg-$1
    release=$(pinned borgbackup "borg-$1")
    say "building BorgBackup $release into $folder (one to three minutes unless cached)"
    uv venv --clear --python .venv/bin/python "$folder"
    uv_pip install --python "$folder/bin/python" --compile-bytecode --require-hashes \
        --build-constraints tools/locks/build.lock --requirement "tools/locks/borg-$1.lock"
    engine_is_built "$1" || fail "the engine built into $folder does not run"
}

build_beta() ( # series: for the tests alone, so that a quick build counts for more than a quick program
    export CFLAGS='-O1 -g0'
    build_engine "$1"
)

need_engines_for_tests() { # the system's 1.2 will do; of the others the tests want a release that is the same everywhere
    todo=
    engine_is borg 1.2 || engine_is_built 1.2 || todo="build_engine 1.2;"
    engine_is_built 1.4 || todo="$todo build_engine 1.4;"
    engine_is_built 2.0 || todo="$todo build_beta 2.0;"
    [ -n "$todo" ] || return 0
    need_packages build
    export DIST_EXTRA_CONFIG="$root/.boot/build.cfg"
    printf '[build_ext]\nparallel = %s\n' "$(nproc)" >"$DIST_EXTRA_CONFIG"
    builds=
    while [ -n "$todo" ]; do # all at once: most of each build uses one core
        ${todo%%;*} &
        builds="$builds $!"
        todo=${todo#*;}
    done
    for build in $builds; do wait "$build" || fail "an engine could not be built"; done
}

need_remotes_for_tests() { # rclone serves all but S3 itself
    need_packages mirror
    cmp -s tools/locks/s3.lock .boot/s3/installed.lock && return 0
    say "installing an S3 server for the tests into .boot/s3"
    uv venv --clear --python .venv/bin/python .boot/s3
    uv_pip install --python .boot/s3/bin/python --require-hashes --requirement tools/locks/s3.lock
    cp tools/locks/s3.lock .boot/s3/installed.lock
}

# --- the set-up itself -------------------------------------------------------------------------------------------

if everything_is_in_place; then
    say "everything is in place"
    exit 0
fi
mkdir -p .boot .engines
exec 9>.boot/lock
flock -n 9 2>/dev/null || { say "waiting for another set-up of this folder"; flock 9; }

state=$(state_of_inputs)
: >.boot/apt.log
need_packages base
boot_uv
make_environment
install_packages
need_packages engine ssh
case $mode in
    test)
        need_packages sshd
        need_remotes_for_tests
        need_engines_for_tests
        ;;
    demo) need_packages demo ;;
esac

for done in run "$mode"; do
    printf '%s\n' "$state" >.boot/stamp.new
    mv .boot/stamp.new ".boot/stamp-$done"
done
say "ready"
