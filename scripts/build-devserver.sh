#!/usr/bin/env bash
# Builds Temporal with its Web UI into the file that is given. Shows how many packages
# are left to compile, and about how long that takes.
set -euo pipefail
out=$1
go=${GO:-go}
cd "$(dirname "$0")/../devserver"

echo "Preparing to build Temporal and its Web UI."
$go mod download
total=$($go list -tags "${DEVSERVER_TAGS:-}" -deps -f '{{if .Stale}}x{{end}}' . | grep -c x || true)

progress() { # reads what `go build -v` prints: the name of each package when its turn comes
	local n=0 shown=0 began=$SECONDS line
	while IFS= read -r line; do
		if [[ $line == *[\ :]* ]]; then # a message
			printf '%s\n' "$line" >&2
			continue
		fi
		n=$((n + 1))
		if [ -t 1 ]; then
			printf '\rCompiling package %d of %d, about %d s left \033[K' $n "$total" $(((SECONDS - began) * (total - n) / n))
		elif [ $((n * 10 / total)) -gt $shown ]; then
			shown=$((n * 10 / total))
			printf 'Compiling package %d of %d, about %d s left\n' $n "$total" $(((SECONDS - began) * (total - n) / n))
		fi
	done
	[ ! -t 1 ] || printf '\n'
}
$go build -v -tags "${DEVSERVER_TAGS:-}" -ldflags "-s -w" -o "$out" . 2>&1 | progress
