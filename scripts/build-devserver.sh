#!/usr/bin/env bash
# Builds Temporal with its Web UI into the file that is given. Shows how many packages
# are left to compile, and about how long that takes.
set -euo pipefail
out=$1
go=${GO:-go}
cd "$(dirname "$0")/../devserver"
source ../scripts/build-progress.sh

echo "Preparing to build Temporal and its Web UI."
$go mod download
total=$($go list -tags "${DEVSERVER_TAGS:-}" -deps -f '{{if .Stale}}x{{end}}' . | grep -c x || true)

$go build -v -tags "${DEVSERVER_TAGS:-}" -ldflags "-s -w" -o "$out" . 2>&1 | progress "$total"
