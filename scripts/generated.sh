#!/usr/bin/env bash
# Verifies that generated code matches its sources: queries by sqlc, pages by templ.
# Outdated code is generated again and must be committed.
set -euo pipefail
cd "$(dirname "$0")/.."
sums() { find internal/store/db server/ui -name '*.go' -exec sha256sum {} + | sort -k2; }
before=$(sums)
make --no-print-directory generate
after=$(sums)
if [ "$before" != "$after" ]; then
	echo "Generated code was out of date and has been generated again. Commit these files:" >&2
	diff <(echo "$before") <(echo "$after") | awk '/^>/ {print "  " $3}' >&2
	exit 1
fi
