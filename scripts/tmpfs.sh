#!/usr/bin/env bash
# Runs a command with TMPDIR on a tmpfs that only the command sees and that ends with it.
# Tests create and delete many small files, for which ext4 needs three to six times the
# processor time. The path is the same each time, because go test repeats tests whose
# TMPDIR has changed. Without root, or with less than 8 GB of available memory, TMPDIR
# stays as it is.
set -euo pipefail
available=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo 2>/dev/null || echo 0) # in KB
if [ "$(id -u)" != 0 ] || [ "$available" -lt 8000000 ] || ! unshare --mount true 2>/dev/null; then
	exec "$@"
fi
dir=${TMPDIR:-/tmp}/rgpt-tests
mkdir -p "$dir"
# No mount leaves the namespace (slave), but namespaces that tests create inside see unmounts
# here as they would outside (rshared).
exec unshare --mount --propagation slave bash -euc '
	mount --make-rshared /
	mount -t tmpfs -o mode=1777 tmpfs "$0"
	export TMPDIR=$0
	exec "$@"' "$dir" "$@"
