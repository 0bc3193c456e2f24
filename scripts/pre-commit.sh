#!/usr/bin/env bash
# Checks the staged changes: gofmt of the staged Go files, and lint of
# their packages. The modules below devserver and tools are not linted.
set -euo pipefail
cd "$(git rev-parse --show-toplevel)"

mapfile -t files < <(git diff --cached --name-only --diff-filter=ACMR -- '*.go' ':!*/testdata/*')
[ ${#files[@]} -gt 0 ] || exit 0

unformatted=$(gofmt -l "${files[@]}")
if [ -n "$unformatted" ]; then
	echo "gofmt would change these files; run gofmt -w on them:" >&2
	echo "$unformatted" >&2
	exit 1
fi

mapfile -t packages < <(printf '%s\n' "${files[@]}" | grep -vE '^(devserver|tools)/' | xargs -r -n1 dirname | sort -u | sed 's,^,./,')
[ ${#packages[@]} -gt 0 ] || exit 0
"${LINT:-bin/golangci-lint}" run "${packages[@]}"
