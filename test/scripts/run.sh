#!/bin/sh
# run.sh SLUICE [DIR]: serves a directory, a demo directory if none is named, to
# this host until Ctrl-C, and prints the command that mounts it once it can be
# mounted. Port 2049 if it may be had, else the next that is free. What it writes
# beside the directory is in build/run.
set -eu
sluice=$1
dir=${2:-}
here=$PWD/build/run

# shown WORD: as a shell wants it to be written.
shown() {
	case $1 in
	*[!A-Za-z0-9_./:,@%+=-]*) printf %s "$1" | sed "s/'/'\\\\''/g; s/^/'/; s/\$/'/" ;;
	*) printf %s "$1" ;;
	esac
}

if [ "$(id -u)" != 0 ]; then
	cat >&2 <<-END
	$sluice is built, but only root can serve with it: the server acts under the user
	ids of its callers and opens files by handle. Start it with

	    sudo $0 $sluice${dir:+ $(shown "$dir")}

	END
	exit 1
fi

if [ -z "$dir" ]; then
	dir=$here/demo
	mkdir -p "$dir"
	[ -e "$dir/hello.txt" ] || echo "Served by Sluice." >"$dir/hello.txt"
elif [ ! -d "$dir" ]; then
	echo "EXPORT=$dir is not a directory; make it, or name another" >&2
	exit 1
fi
dir=$(cd "$dir" && pwd -P)
mkdir -p "$here"

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

options=
[ $port = 2049 ] || options="-o port=$port"

# The admin socket is where `sluice mode` looks for it, unless another server
# has that place. That one may have been started here too, and has a state directory.
admin=
state=$here/state
if "$sluice" status >/dev/null 2>&1; then
	admin="--admin build/run/admin.$port.sock"
	state=$here/state.$port
fi

# exports(5) writes blanks, quotes, # and backslashes as octal numbers.
escaped=$(printf %s "$dir" | sed 's/\\/\\134/g; s/ /\\040/g; s/	/\\011/g; s/"/\\042/g; s/#/\\043/g')

# Below, this process becomes the server; it has the number $$ all the time. What
# waits for it is not its child, or would end as a zombie.
server=$$
( (
	# shellcheck disable=SC2086 # two words or none
	until "$sluice" status --json $admin 2>/dev/null | grep -q "\"pid\": $server,"; do
		kill -0 $server 2>/dev/null || exit 0
		sleep 0.1
	done
	cat <<-END

	Serving $dir until Ctrl-C.
	In another terminal, as root, mount it and switch its read mode:

	    mount -t nfs ${options:+$options }$(shown "127.0.0.1:$dir") /mnt
	    $sluice mode read direct${admin:+ $admin}

	END
) & )
# shellcheck disable=SC2086 # two words or none
exec "$sluice" serve --export "$escaped" --listen "127.0.0.1:$port" --state "$state" --rpcbind off $admin
