#!/usr/bin/env bash
# Replays models of every weight type, and runs the engine, in llama.cpp's own arithmetic. See --help.
set -euo pipefail

usage() {
    cat <<'EOF_USAGE'
to-the-bit.sh: whether every node of llama.cpp, and our engine from tokens to logits, have the bits of its own arithmetic

usage: scripts/to-the-bit.sh [--help] [BUILD..]

For each build of llama.cpp (default: scalar usual; also avx512, on a machine that has it) and each type (f32 f16 bf16 q8_0 q4_0 q4_K q6_K
q2_0 tq2_0 q1_0 tq1_0) it makes synthetic models, dumps them, and runs with --arithmetic ggml
  replay   4 layers, every node: 3 + 1 + 1 tokens, and a prompt of 11
  replay   64 layers, every node: a prompt of 11
  check    64 layers, every named tensor from tokens to logits: 7 + 1 + 1 + 1 + 1
and replays a sentence through the real models (scripts/real-models.sh fetches them). It prints the last line of each, then the counts of
all, and exits 1 if a bit is other than it should be. Models and dumps are temporary, 200 MB at a time; two cores take about three
minutes a build.

environment: LOCKSTEP (the lockstep binary), LOCKSTEP_CACHE and LLAMA_DIR as for build-llama.sh
EOF_USAGE
}

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(dirname "$HERE")
CACHE=${LOCKSTEP_CACHE:-${HOME:?set HOME or LOCKSTEP_CACHE}/.cache/lockstep}
TYPES=(f32 f16 bf16 q8_0 q4_0 q4_K q6_K q2_0 tq2_0 q1_0 tq1_0)
TOKENS=7,300,12,45,501,300,222,18,400,7,5
SENTENCE="The capital of France is Paris, and the capital of"

case ${1:-} in
    -h | --help) usage && exit 0 ;;
esac
[ $# -gt 0 ] || set -- scalar usual
for build in "$@"; do
    case $build in
        scalar | usual | avx512) ;;
        *) echo "to-the-bit: error: unknown build '$build' (see --help)" >&2 && exit 2 ;;
    esac
done

lockstep() {
    if [ -n "${LOCKSTEP:-}" ]; then
        "$LOCKSTEP" "$@"
    else
        cargo run --release --quiet --manifest-path "$ROOT/Cargo.toml" -- "$@"
    fi
}

SCRATCH=$(mktemp -d)
trap 'rm -rf "$SCRATCH"' EXIT
status=0 nodes=0 equal=0

# Adds up what a replay's last line says.
count() { # LINE
    local line=${1//,/}
    [[ $line =~ ^([0-9]+)\ nodes\ compared:\ ([0-9]+)\ bit-equal.*\ ([0-9]+)\ skipped ]] || return 0
    nodes=$((nodes + BASH_REMATCH[1] + BASH_REMATCH[3]))
    equal=$((equal + BASH_REMATCH[2]))
    [ "${BASH_REMATCH[3]}" = 0 ] || status=1
}

judge() { # LABEL COMMAND.. : prints the last line of what the command says
    local label=$1 code=0 line
    shift
    lockstep "$@" --arithmetic ggml >"$SCRATCH/said" 2>"$SCRATCH/errors" || code=$?
    line=$(tail -n 1 "$SCRATCH/said")
    echo "$label: $line"
    count "$line"
    [ "$code" = 0 ] || { cat "$SCRATCH/said" "$SCRATCH/errors" >&2 && status=1; }
}

dump() { # MODEL OPTION..
    local model=$1
    shift
    "$CACHE/bin/$PROGRAM" -m "$model" --out "$SCRATCH/dump.npz" "$@" >"$SCRATCH/said" 2>&1 ||
        { cat "$SCRATCH/said" >&2 && echo "to-the-bit: $PROGRAM failed on $model" >&2 && exit 2; }
}

"$HERE/real-models.sh" --fetch >&2
for build in "$@"; do
    PROGRAM=llama-dump-$build
    if [ "$build" = usual ]; then
        PROGRAM=llama-dump
        "$HERE/build-llama.sh" >&2
    else
        "$HERE/build-llama.sh" --build "$build" >&2
    fi
    model=$SCRATCH/model.gguf
    for type in "${TYPES[@]}"; do
        lockstep synth micro-bonsai --seed 1 --type "$type" --out "$model" >/dev/null 2>&1
        dump "$model" -t 1,2,3,4,5 --schedule 3,1,1
        judge "$build, $type, 4 layers, 3 + 1 + 1" replay --model "$model" --dump "$SCRATCH/dump.npz"
        dump "$model" -t "$TOKENS"
        judge "$build, $type, 4 layers, 11" replay --model "$model" --dump "$SCRATCH/dump.npz"
        rm -f "$model"
        lockstep synth mini-bonsai --seed 1 --type "$type" --out "$model" >/dev/null 2>&1
        dump "$model" -t "$TOKENS"
        judge "$build, $type, 64 layers, 11" replay --model "$model" --dump "$SCRATCH/dump.npz"
        dump "$model" -t "$TOKENS" --schedule 7,1,1,1,1 --named
        judge "$build, $type, engine, 7 + 1 + 1 + 1 + 1" check --mode cumulative --model "$model" --dump "$SCRATCH/dump.npz"
        rm -f "$model"
    done
    for real in smollm2 gemma3; do
        dump "$CACHE/real-models/$real.gguf" -p "$SENTENCE"
        judge "$build, $real, a sentence" replay --model "$CACHE/real-models/$real.gguf" --dump "$SCRATCH/dump.npz"
    done
done
echo "$equal of $nodes nodes bit-equal; $([ "$status" = 0 ] && echo "everything is equal" || echo "not everything is equal")"
exit "$status"
