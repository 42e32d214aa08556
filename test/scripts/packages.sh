#!/bin/sh
# packages.sh LIST...: makes sure that the Debian packages in the lists are
# there. A line of a list is a package, a command or file that proves it is
# installed, and what it is for. As root on a Debian system it installs the
# missing ones; elsewhere it names them, and what needs them will be skipped.
set -eu
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

missing=$(sed '/^#/d; /^$/d' "$@" | while read -r package proof _; do
	case $proof in
	/*) [ -e "$proof" ] || echo "$package" ;;
	*) command -v "$proof" >/dev/null 2>&1 || echo "$package" ;;
	esac
done | sort -u | tr '\n' ' ')
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
	echo "installing what is missing: $missing"
	export DEBIAN_FRONTEND=noninteractive
	apt-get -q update
	# shellcheck disable=SC2086 # a list of words
	apt-get -q install -y --no-install-recommends $missing
else
	echo "missing Debian packages, without which parts are skipped: $missing"
	echo "install them with: sudo apt-get install --no-install-recommends $missing"
fi
