#!/usr/bin/env bash
# Installs the packages of the Node sample's browser tests once, from a lock file,
# into a cache folder that the worker provides to the sandbox.
# Usage: node-packages.sh [--where]; --where only prints the folder.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source="$here/node/packages"
version=$(cat "$source/package.json" "$source/package-lock.json" | git hash-object --stdin | cut -c1-12)
folder="${XDG_CACHE_HOME:-$HOME/.cache}/rgpt/node-packages/$version"
if [ "${1:-}" = --where ]; then
	echo "$folder/node_modules"
	exit 0
fi
[ ! -d "$folder/node_modules" ] || exit 0
command -v npm >/dev/null || { echo "The Node example needs Node 20 or newer with npm." >&2; exit 1; }
echo "Installing the browser tests' packages into $folder"
mkdir -p "$(dirname "$folder")"
fresh=$(mktemp -d "$folder.XXXXXX")
trap 'rm -rf "$fresh"' EXIT
cp "$source/package.json" "$source/package-lock.json" "$fresh/"
# The browser comes from the system: npm must not download one.
PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 npm ci --prefix "$fresh" --ignore-scripts --no-audit --no-fund --loglevel=error
mv -T "$fresh" "$folder" 2>/dev/null || [ -d "$folder/node_modules" ]
