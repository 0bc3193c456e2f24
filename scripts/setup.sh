#!/usr/bin/env bash
# Installs what the project needs beyond Go, git and Node: PostgreSQL's server
# programs and bubblewrap, and for the browser example Chromium; with RGPT_DOCKER=1 also
# Docker, for the tests of the docker runner, and with RGPT_GITEA=1 a C compiler. Without the rights to install them, prints the
# command to run.
set -euo pipefail

missing=()
have_postgres() {
	local dir
	for dir in "$(pg_config --bindir 2>/dev/null || true)" /usr/lib/postgresql/*/bin; do
		[ -x "$dir/postgres" ] && [ -x "$dir/initdb" ] && return 0
	done
	command -v postgres >/dev/null && command -v initdb >/dev/null
}
[ -n "${DATABASE_URL:-}" ] || have_postgres || missing+=(postgresql)
command -v bwrap >/dev/null || missing+=(bubblewrap)
if [ "${RGPT_BROWSER:-}" = 1 ]; then
	command -v chromium >/dev/null || command -v google-chrome >/dev/null || missing+=(chromium)
fi
if [ "${RGPT_GITEA:-}" = 1 ]; then # Gitea contains SQLite, which is written in C
	command -v "${CC:-gcc}" >/dev/null || missing+=(gcc libc6-dev)
fi
if [ "${RGPT_DOCKER:-}" = 1 ]; then
	command -v dockerd >/dev/null || missing+=(docker.io)
fi
[ ${#missing[@]} -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null; then
	echo "Please install with your system's package manager: ${missing[*]}" >&2
	exit 1
fi
install="apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
if [ "$(id -u)" = 0 ]; then
	echo "Installing ${missing[*]}."
	DEBIAN_FRONTEND=noninteractive bash -c "$install" >/tmp/rgpt-setup.log 2>&1 || { tail -n 20 /tmp/rgpt-setup.log >&2; exit 1; }
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
	echo "Installing ${missing[*]}."
	sudo -n bash -c "DEBIAN_FRONTEND=noninteractive $install" >/tmp/rgpt-setup.log 2>&1 || { tail -n 20 /tmp/rgpt-setup.log >&2; exit 1; }
else
	echo "Missing: ${missing[*]}. You do not have the rights to install them. Run this once as an administrator:" >&2
	echo "  sudo sh -c '$install'" >&2
	exit 1
fi
