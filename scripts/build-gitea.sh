#!/usr/bin/env bash
# Builds Gitea, a forge for tests, once for each user and version: it stays in the user's cache.
# The link that is given leads to its folder, which contains the program (gitea) and the files that
# it reads (templates, options). The web pages have no styles and scripts, because the module has
# none; the API and git do not need them.
set -euo pipefail
link=$1
go=${GO:-go}
module=code.gitea.io/gitea
version=v1.23.8
sum='h1:j1r14vyW6n2JHBBQPi52VLwa8C3iylUHVpPIqoS+XQY='
tags='sqlite sqlite_unlock_notify'
cd "$(dirname "$0")/.."
source scripts/build-progress.sh

cache=${XDG_CACHE_HOME:-${HOME:?is not set; set it or XDG_CACHE_HOME to the folder for Gitea}/.cache}/rgpt/gitea-${version#v}
complete=$cache/complete # names what was built; written last

publish() {
	mkdir -p "$(dirname "$link")"
	[ "$(readlink "$link" 2>/dev/null)" = "$cache" ] || { rm -rf "$link" && ln -s "$cache" "$link"; }
}
built="$sum $tags"
if [ "$(cat "$complete" 2>/dev/null)" = "$built" ]; then
	publish
	exit 0
fi

compiler=$($go env CC)
if ! command -v ${compiler%% *} >/dev/null; then # it may have arguments
	echo "Gitea needs a C compiler for SQLite, and $compiler is not installed. Install it (on Debian: apt-get install gcc libc6-dev) and try again." >&2
	exit 1
fi

mkdir -p "$cache"
exec 9>"$cache/lock" # of those that start at the same time, one builds
flock 9
if [ "$(cat "$complete" 2>/dev/null)" = "$built" ]; then
	publish
	exit 0
fi

echo "Preparing to build Gitea $version, about 4 minutes on two cores."
record=$(cd / && $go mod download -json "$module@$version") # compares it with the checksum database
field() { sed -n "s/^\t\"$1\": \"\(.*\)\",\{0,1\}$/\1/p" <<<"$record"; }
if [ "$(field Sum)" != "$sum" ]; then
	echo "The module $module@$version has the checksum $(field Sum), but $sum is expected; a proxy or the module cache has another content." >&2
	exit 1
fi

# The module cache is read-only and not a place to build in. The copy is always in the same place,
# because the go command caches packages by their folder.
source=$cache/source
rm -rf "$source"
mkdir "$source"
(cd "$(field Dir)" && tar -cf - --exclude=./tests --exclude=./web_src .) | tar -xf - -C "$source"
chmod -R u+w "$source"

# SQLite's C code takes a third of the time with all optimizations, which tests do not need.
export CGO_ENABLED=1 CGO_CFLAGS=${CGO_CFLAGS:--O1} GOFLAGS="${GOFLAGS:-} -mod=readonly"
total=$(cd "$source" && $go list -tags "$tags" -deps -f '{{if .Stale}}x{{end}}' . | grep -c x || true)
(cd "$source" && $go build -v -tags "$tags" -ldflags "-s -w -X main.Version=${version#v}" -o "$cache/gitea" . 2>&1) | progress "$total"
for files in templates options; do
	rm -rf "${cache:?}/$files"
	mv "$source/$files" "$cache/$files"
done
rm -rf "$source"
printf '%s\n' "$built" >"$complete"
publish
