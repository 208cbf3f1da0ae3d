#!/bin/sh
# Runs the README's tour in a clean clone of this project, with a PATH that contains no engine before set-up.
#
#   tools/try_clone.sh FOLDER      an empty folder for the clone, the programs and the home
#
# If the machine has an engine, it is hidden until set-up installs the package, as on a machine that lacks it.
set -eu
cd "$(dirname "$0")/.."
project=$PWD
place=$(cd "$1" && pwd)
[ -z "$(ls -A "$place")" ] || { echo "try_clone: $place is not empty" >&2; exit 2; }

mkdir "$place/programs" "$place/installed" "$place/home"
(
    IFS=:
    for folder in $PATH; do # all programs except engines; the first of each name counts
        [ ! -d "$folder" ] || find -L "$folder" -maxdepth 1 -type f ! -name 'borg*' -exec ln -s -t "$place/programs" {} + 2>/dev/null || true
    done
)
for installer in apt-get sudo; do
    real=$(command -v $installer) || continue
    rm -f "$place/programs/$installer"
    cat >"$place/programs/$installer" <<WRAPPER
#!/bin/sh
$real "\$@" || exit
if [ -x /usr/bin/borg ]; then ln -sf /usr/bin/borg "$place/installed/borg"; fi
WRAPPER
    chmod +x "$place/programs/$installer"
done

git clone -q "$project" "$place/holdfast"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
caches=${HOME:-$(getent passwd "$(id -u)" | cut -d : -f 6)}/.cache
uv_cache=${UV_CACHE_DIR:-$caches/uv} pip_cache=${PIP_CACHE_DIR:-$caches/pip}
cd "$place/holdfast"
env -u XDG_CONFIG_HOME -u HOLDFAST_BORG1 HOME="$place/home" PATH="$place/programs:$place/installed" \
    UV_CACHE_DIR="$uv_cache" PIP_CACHE_DIR="$pip_cache" tools/try_tour.sh "$port"
