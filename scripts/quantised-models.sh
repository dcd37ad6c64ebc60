#!/usr/bin/env bash
# Replays and checks synthetic models of every weight type that llama.cpp runs. See --help.
set -euo pipefail

usage() {
    cat <<'EOF_USAGE'
quantised-models.sh: what llama.cpp computes from quantised weights, replayed in exact arithmetic and checked with the engine

usage: scripts/quantised-models.sh [--help] [TYPE..]

For each type (default: q8_0 q4_0 q4_K q6_K q2_0 q1_0 tq1_0 tq2_0 bf16 f16) it makes synthetic models, dumps them with llama.cpp, and runs
  replay   4 layers, every node: as is, and with flash attention, f16 caches, repacked weights and 2 threads
  check    64 layers, every named tensor, 5 + 1 + 1 tokens: --mode both
It prints the last line of each, and exits 1 if a node is over its budget or not compared, or a tensor fails.
Models and dumps are temporary. Two cores take about a minute.

environment: LOCKSTEP (the lockstep binary), LOCKSTEP_CACHE and LLAMA_DIR as for build-llama.sh
EOF_USAGE
}

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(dirname "$HERE")
CACHE=${LOCKSTEP_CACHE:-${HOME:?set HOME or LOCKSTEP_CACHE}/.cache/lockstep}

case ${1:-} in
    -h | --help) usage && exit 0 ;;
esac
[ $# -gt 0 ] || set -- q8_0 q4_0 q4_K q6_K q2_0 q1_0 tq1_0 tq2_0 bf16 f16

lockstep() {
    if [ -n "${LOCKSTEP:-}" ]; then
        "$LOCKSTEP" "$@"
    else
        cargo run --release --quiet --manifest-path "$ROOT/Cargo.toml" -- "$@"
    fi
}

"$HERE/build-llama.sh" >&2
SCRATCH=$(mktemp -d)
trap 'rm -rf "$SCRATCH"' EXIT
status=0

run() { # LABEL COMMAND.. : prints the last line of what the command says
    local label=$1 code=0
    shift
    "$@" >"$SCRATCH/said" 2>"$SCRATCH/errors" || code=$?
    echo "$label: $(tail -n 1 "$SCRATCH/said")"
    [ "$code" = 0 ] || { cat "$SCRATCH/said" "$SCRATCH/errors" >&2 && status=1; }
}

dump() { # MODEL OUT OPTION..
    local model=$1 out=$2
    shift 2
    "$CACHE/bin/llama-dump" -m "$model" --out "$out" "$@" >"$SCRATCH/said" 2>&1 ||
        { cat "$SCRATCH/said" >&2 && echo "quantised-models: llama-dump failed on $model" >&2 && exit 2; }
}

for type in "$@"; do
    model=$SCRATCH/model.gguf dump=$SCRATCH/dump.npz
    lockstep synth micro-bonsai --seed 1 --type "$type" --out "$model" >/dev/null 2>&1 ||
        { echo "quantised-models: lockstep synth offers no type '$type' (see lockstep synth --help)" >&2 && exit 2; }
    dump "$model" "$dump" -t 1,5,9,200,9 --schedule 3,1,1
    run "$type replay" lockstep replay --model "$model" --dump "$dump" --min-coverage 100
    dump "$model" "$dump" -t 1,5,9,200,9 --schedule 3,1,1 --flash-attn on --type-k f16 --type-v f16 --repack on --threads 2
    run "$type replay, flash attention" lockstep replay --model "$model" --dump "$dump" --min-coverage 100
    lockstep synth mini-bonsai --seed 1 --type "$type" --out "$model" >/dev/null 2>&1
    dump "$model" "$dump" -t 1,5,9,200,9,33,44 --schedule 5,1,1 --named
    run "$type check" lockstep check --mode both --model "$model" --dump "$dump"
done
exit "$status"
