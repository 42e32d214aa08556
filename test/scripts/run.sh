#!/bin/sh
# run.sh SLUICE [DIR]: serves a directory, a demo directory if none is named, to
# this host, and prints the command that mounts it. Port 2049 if it may be had,
# else the next that is free. What it writes beside the directory is in build/.
set -eu
sluice=$1
dir=${2:-}
here=$PWD/build/run
mkdir -p "$here"

if [ -z "$dir" ]; then
	dir=$here/demo
	mkdir -p "$dir"
	[ -e "$dir/hello.txt" ] || echo "Served by Sluice." >"$dir/hello.txt"
elif [ ! -d "$dir" ]; then
	echo "EXPORT=$dir is not a directory; make it, or name another" >&2
	exit 1
fi
dir=$(cd "$dir" && pwd -P)

# in_use PORT: some socket listens on it (the fourth column of /proc/net/tcp is
# the state, 0A LISTEN).
in_use() {
	cat /proc/net/tcp /proc/net/tcp6 2>/dev/null |
		awk -v port=":$(printf %04X "$1")\$" '$2 ~ port && $4 == "0A" { found = 1 } END { exit !found }'
}
port=2049
while in_use $port; do
	[ $port = 2049 ] && port=12049 || port=$((port + 1))
done

# The admin socket is where `sluice mode` looks for it, if that place is ours.
admin=
[ "$(id -u)" = 0 ] || admin="--admin $here/admin.sock"

cat <<END
serving $dir on port $port; mount it with

    sudo mount -t nfs -o vers=3,nolock,proto=tcp,mountproto=tcp,port=$port,mountport=$port 127.0.0.1:$dir /mnt

and switch its read mode with

    $sluice mode read direct ${admin}

END
# shellcheck disable=SC2086 # two words or none
exec "$sluice" serve --export "$dir" --listen "127.0.0.1:$port" --state "$here/state" --rpcbind off $admin
