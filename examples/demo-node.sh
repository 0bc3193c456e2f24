#!/usr/bin/env bash
# Turns a goal into a tested branch of the Node sample, whose tests run in a
# real browser. It has its own stack, because the worker must know where the
# packages and the browser are.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
export PATH="$root/bin:$PATH"
export RGPT_DATA_DIR="${RGPT_DATA_DIR:-$root/.rgpt-node}"
sample="$RGPT_DATA_DIR/samples/node"

"$here/node-packages.sh"
# The worker passes installed packages and the browser to the tests.
RGPT_NODE_MODULES=$("$here/node-packages.sh" --where)
RGPT_CHROMIUM=${RGPT_CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome)}
export RGPT_NODE_MODULES RGPT_CHROMIUM
# A browser outside the system's folders must be made visible in the sandbox.
browser=$(dirname "$(readlink -f "$RGPT_CHROMIUM")")
case $browser in
/usr/* | /bin | /nix/store/*) ;;
*) export RGPT_EXECUTION_SANDBOX_READ_ONLY="${RGPT_EXECUTION_SANDBOX_READ_ONLY:+$RGPT_EXECUTION_SANDBOX_READ_ONLY,}$browser" ;;
esac

rgpt dev --detach --scenario "$here/node/good.yaml" --port "${PORT:-0}"
"$here/make-sample.sh" node "$sample"
echo
rgpt run create --repo "$sample" --goal "$(cat "$here/node/goal.txt")" --wait
echo
run=$(rgpt run list --limit 1 --json | node -p 'JSON.parse(require("fs").readFileSync(0)).runs[0].runId')
folder="$RGPT_DATA_DIR/files/run-$run"
rgpt run artifacts "$run" --folder "$folder" >/dev/null
echo "Files of the browser tests, in $folder:"
find "$folder" -name '*.png' -o -name trace.zip | sort | sed "s|^$folder/|  |"
echo
echo "Stop the stack with: bin/rgpt dev stop --data-dir $RGPT_DATA_DIR"
