#!/usr/bin/env bash
# Creates one of the sample repositories: make-sample.sh go|node FOLDER
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
kind=${1:?missing sample: go or node}
folder=${2:?missing target folder}
[ -d "$here/$kind/files" ] || { echo "sample not found: $kind; choose go or node" >&2; exit 4; }
[ ! -e "$folder/.git" ] || exit 0
mkdir -p "$folder"
cp -R "$here/$kind/files/." "$folder/"
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
git -C "$folder" init --quiet --initial-branch main
git -C "$folder" add --all
git -C "$folder" -c user.name=Sample -c user.email=sample@localhost commit --quiet --message "Start"
