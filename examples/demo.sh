#!/usr/bin/env bash
# Starts everything and turns a goal into a tested branch of the Go sample.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
export PATH="$root/bin:$PATH"
export RGPT_DATA_DIR="${RGPT_DATA_DIR:-$root/.rgpt}"
sample="$RGPT_DATA_DIR/samples/go"

# Start the stack first: it creates the data folder and records you as its creator.
rgpt dev --detach --scenario "$here/go/good.yaml" --port "${PORT:-8080}"
"$here/make-sample.sh" go "$sample"
echo
rgpt run create --repo "$sample" --goal "$(cat "$here/go/goal.txt")" --wait
echo
echo "The branch, in $sample:"
git -C "$sample" --no-pager log --oneline --graph --branches --max-count 8
echo
echo "Stop the stack with: bin/rgpt dev stop --data-dir $RGPT_DATA_DIR"
