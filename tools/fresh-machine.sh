#!/bin/sh
# Runs a command in a clean clone of this project on a bare Debian machine: a chroot in its own namespaces.
#
#   tools/fresh-machine.sh [-s SUITE] [-u USER] [-k] COMMAND [ARGUMENT...]
#
#   -s  Debian release: bookworm (default) or trixie
#   -u  run as a new user with sudo rights instead of root
#   -k  keep the machine afterwards, and print where it is
#
# The machine has only git, make, sudo, curl, jq and the certificates. The clone is of the last commit. Needs root and
# debootstrap. The bare system is kept in FRESH_BASE (default: /var/tmp/fresh-machine); each run works on a copy, which
# is removed at the end with everything still running in it. Ports are those of the host: choose free ones.
set -eu

suite=bookworm user=root keep=
usage() { sed -n '2,12p' "$0" >&2; exit 2; }
while getopts s:u:k option; do
    case $option in
        s) suite=$OPTARG ;;
        u) user=$OPTARG ;;
        k) keep=yes ;;
        *) usage ;;
    esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || usage
[ "$(id -u)" = 0 ] || { echo "fresh-machine: run it as root" >&2; exit 2; }
command -v debootstrap >/dev/null || { echo "fresh-machine: debootstrap is missing: apt-get install debootstrap" >&2; exit 2; }

project=$(cd "$(dirname "$0")/.." && pwd)
base=${FRESH_BASE:-/var/tmp/fresh-machine}
bare=$base/$suite

sources() { cat /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources 2>/dev/null || true; }

make_bare_system() {
    mirror=$(sources | sed -n 's/^URIs: *\([^ ]*\).*/\1/p; s/^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*\).*/\2/p' | head -n 1)
    echo "fresh-machine: making a bare $suite in $bare (once)" >&2
    rm -rf --one-file-system "$bare"
    mkdir -p "$bare"
    debootstrap --variant=minbase --include=git,make,sudo,ca-certificates,curl,jq "$suite" "$bare" "${mirror:-http://deb.debian.org/debian}" \
        >"$base.$suite.log" 2>&1 || { tail -n 5 "$base.$suite.log" >&2; exit 1; }
    # What any machine with internet access has: package sources, certificates, a resolver, and settings for pip.
    if [ -e /etc/apt/sources.list.d/debian.sources ]; then
        sed "s/bookworm/$suite/g; s/trixie/$suite/g" /etc/apt/sources.list.d/debian.sources >"$bare/etc/apt/sources.list.d/debian.sources"
        rm -f "$bare/etc/apt/sources.list"
    fi
    cp -a /etc/apt/apt.conf.d/. "$bare/etc/apt/apt.conf.d/"
    cp -aL /etc/ssl/certs/ca-certificates.crt "$bare/etc/ssl/certs/"
    for file in /etc/pip.conf /etc/resolv.conf /etc/hosts; do
        if [ -e "$file" ]; then cp -L "$file" "$bare$file"; fi
    done
    touch "$bare/.complete"
}

[ -e "$bare/.complete" ] || make_bare_system
work=$(mktemp -d "$base.XXXXXX")
trap 'if [ -n "$keep" ]; then echo "fresh-machine: kept at $work"; else rm -rf --one-file-system "$work"; fi' EXIT

cp -a --reflink=auto "$bare/." "$work/"
chmod 755 "$work" # other users of the machine must be able to pass through it
home=/root
if [ "$user" != root ]; then
    chroot "$work" useradd -m -s /bin/bash "$user"
    echo "$user ALL=(ALL) NOPASSWD: ALL" >"$work/etc/sudoers.d/$user"
    home=/home/$user
fi
git clone -q "$project" "$work$home/holdfast"
[ "$user" = root ] || chroot "$work" chown -R "$user:" "$home"

# shellcheck disable=SC2016 # expanded inside
set -- env -i HOME="$home" USER="$user" LANG=C.UTF-8 TERM="${TERM:-dumb}" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt PIP_CERT=/etc/ssl/certs/ca-certificates.crt \
    sh -c 'cd "$HOME/holdfast" && exec "$@"' sh "$@"
[ "$user" = root ] || set -- setpriv --reuid="$user" --regid="$user" --init-groups "$@"
# shellcheck disable=SC2016
unshare --mount --pid --fork --kill-child sh -c '
    root=$1; shift
    mount --make-rprivate /
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs tmpfs "$root/run"
    chroot "$root" "$@"' sh "$work" "$@"
