#!/usr/bin/env bash
# Succeeds if the temporal command is installed with a server that `rgpt dev` can use.
# The version is that of internal/devstack/temporalcli.go.
set -euo pipefail
oldest=1.32.0
version=$(temporal --version 2>/dev/null | sed -n 's/.*(Server \([0-9.]*\).*/\1/p') || exit 1
[ -n "$version" ] && printf '%s\n' $oldest "$version" | sort -V -C
