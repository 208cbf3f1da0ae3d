#!/bin/sh
# Installs the backup agent on this machine; `sh install.sh --help` prints how to use it.
set -eu

say() { printf 'backup-agent: %s\n' "$*"; }
fail() { printf 'backup-agent: %s\n' "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }
usage() { # not read from "$0": the script is usually piped
    cat <<'USAGE'
Installs the backup agent on this machine, registers it, and starts it as a service.

  curl -fsSL https://SERVICE/agent/install.sh | sudo sh -s -- --server https://SERVICE --token TOKEN

As root: into /opt/backup-agent, as a service of the system. Else: into ~/.local/share/backup-agent, as a service of
the user. Needs Python 3.11 or newer. Nothing comes from anywhere but the service itself.

  --server URL     the service                    (or BACKUP_AGENT_SERVER)
  --token TOKEN    a one-time enrollment token    (or BACKUP_AGENT_TOKEN, which other users cannot see)
  --name NAME      what to call the machine       (default: its host name)
  --ca-file FILE   certificates of a private authority
  --prefix FOLDER  install somewhere else
  --no-service     do not install a service
  --upgrade        replace the program only; the machine stays registered
  --uninstall      remove the agent from this machine: service, registration, configuration, state, program
  --force          with --uninstall: even if jobs or keys are left, or the service is unreachable
  --help           print this
USAGE
}

server=${BACKUP_AGENT_SERVER:-} token=${BACKUP_AGENT_TOKEN:-} name='' ca_file='' prefix='' service=yes upgrade=no uninstall=no force=''
need() { [ $# -ge 2 ] && [ -n "$2" ] || fail "$1 needs a value"; }
while [ $# -gt 0 ]; do
    case $1 in
        --server) need "$@"; server=$2; shift ;;
        --token) need "$@"; token=$2; shift ;;
        --name) need "$@"; name=$2; shift ;;
        --ca-file) need "$@"; ca_file=$2; shift ;;
        --prefix) need "$@"; prefix=$2; shift ;;
        --no-service) service=no ;;
        --upgrade) upgrade=yes ;;
        --uninstall) uninstall=yes ;;
        --force) force=--force ;;
        -h | --help) usage; exit 0 ;;
        *) fail "unknown argument $1" ;;
    esac
    shift
done
if [ -z "$prefix" ]; then
    if [ "$(id -u)" = 0 ]; then prefix=/opt/backup-agent; else prefix=${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}/.local/share/backup-agent; fi
fi
if [ "$uninstall" = yes ]; then
    [ -x "$prefix/bin/backup-agent" ] || fail "there is no agent in $prefix; name its folder with --prefix"
    "$prefix/bin/backup-agent" uninstall $force
    rm -rf "$prefix/venv" "$prefix/venv.new" "$prefix/venv.old" "$prefix/bin"
    rmdir "$prefix" 2>/dev/null || say "$prefix holds other files and stays"
    if [ "$(readlink /usr/local/bin/backup-agent 2>/dev/null)" = "$prefix/bin/backup-agent" ]; then
        rm -f /usr/local/bin/backup-agent
    fi
    say "removed from this machine"
    exit 0
fi
[ -n "$server" ] || fail "the service's address is missing: --server https://…"
server=${server%/}
[ "$upgrade" = yes ] || [ -n "$token" ] || fail "the enrollment token is missing: --token TOKEN"

# --- requirements --------------------------------------------------------------------------------------------------

python=''
for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
    if have "$candidate" && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$(command -v "$candidate")
        break
    fi
done
[ -n "$python" ] || fail "Python 3.11 or newer is needed; install it (Debian 12: apt install python3) and run this again"

fetch() { # address, file
    "$python" -c '
import ssl, sys, urllib.request
address, file, authority = sys.argv[1:]
context = ssl.create_default_context(cafile=authority or None)
try:
    with urllib.request.urlopen(address, timeout=60, context=context) as answer, open(file, "wb") as target:
        target.write(answer.read())
except OSError as error:
    sys.exit(f"backup-agent: {address}: {error}")
' "$1" "$2" "$ca_file"
}

# --- the program ---------------------------------------------------------------------------------------------------

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
say "fetching the agent from $server"
fetch "$server/agent/wheels/" "$work/index" || fail "$server does not hand out the agent"
while read -r sum file; do
    case $file in *[!A-Za-z0-9._-]* | '' | .*) fail "the service names a file that cannot be one: $file" ;; esac
    fetch "$server/agent/wheels/$file" "$work/$file" || fail "$file could not be fetched"
    "$python" -c 'import hashlib, sys; sys.exit(hashlib.sha256(open(sys.argv[1], "rb").read()).hexdigest() != sys.argv[2])' \
        "$work/$file" "$sum" || fail "$file did not arrive as it was sent"
done <"$work/index"

say "installing into $prefix"
mkdir -p "$prefix"
new=$prefix/venv.new
rm -rf "$new"
"$python" -m venv --without-pip "$new" || fail "the Python environment could not be made"
packages=$("$new/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
for wheel in "$work"/*.whl; do
    "$python" -m zipfile -e "$wheel" "$packages"
done
mkdir -p "$prefix/bin"
rm -rf "$prefix/venv.old"
[ ! -e "$prefix/venv" ] || mv "$prefix/venv" "$prefix/venv.old"
mv "$new" "$prefix/venv"
rm -rf "$prefix/venv.old"
cat >"$prefix/venv/bin/backup-agent" <<LAUNCHER
#!/bin/sh
exec "$prefix/venv/bin/python" -m backup_agent "\$@"
LAUNCHER
chmod 755 "$prefix/venv/bin/backup-agent"
ln -sf "$prefix/venv/bin/backup-agent" "$prefix/bin/backup-agent"
agent=$prefix/bin/backup-agent
"$prefix/venv/bin/python" -m compileall -q "$prefix/venv/lib" >/dev/null 2>&1 || true
"$agent" --version >/dev/null || fail "the agent does not start"
if [ "$(id -u)" = 0 ] && [ "$prefix" = /opt/backup-agent ]; then ln -sf "$agent" /usr/local/bin/backup-agent; fi
have borg || have borg2 || say "note: BorgBackup is not installed yet; the agent finds it when it is (apt install borgbackup)"

# --- the machine ---------------------------------------------------------------------------------------------------

if [ "$upgrade" = no ]; then
    printf '%s\n' "$token" | "$agent" register --server "$server" --token - \
        ${name:+--name "$name"} ${ca_file:+--ca-file "$ca_file"}
fi
has_service_manager() {
    case $(uname -s) in Darwin) return 0 ;; esac
    have systemctl && [ -d /run/systemd/system ] || return 1
    [ "$(id -u)" = 0 ] || systemctl --user show-environment >/dev/null 2>&1
}
if [ "$service" = yes ] && has_service_manager; then
    "$prefix/venv/bin/backup-agent" install-service
else
    [ "$service" = no ] || say "this machine has no systemd that could start the agent (or none for this user)"
    say "the agent is installed and does not run yet. Run it with: $agent run"
    say "to run it at every start of the machine, let your service manager do that, or cron: @reboot $agent run"
fi
