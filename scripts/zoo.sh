#!/usr/bin/env bash
# Replays every architecture that llama.cpp can build. See --help.
set -euo pipefail

usage() {
    cat <<'EOF_USAGE'
zoo.sh: replay tiny random models of every architecture of llama.cpp, node by node

usage: scripts/zoo.sh [--help] [OPTIONS]

  --arch REGEX       only architectures whose names contain a match (repeatable)
  --dozen            only twelve, which together have every operator of all (that is checked)
  --seed N           of the weights (repeatable; default 1)
  --stdev X          their standard deviation (repeatable; default 0.1)
  --type T           f32, q8_0 or q4_K: what the weights are quantised to by llama.cpp (repeatable; default f32)
  --flash-attn W     off or on (repeatable; default off and on)
  --build B          usual, scalar or avx512: the build of llama.cpp that computes (default usual; build-llama.sh --help)
  --arithmetic A     exact or ggml, as for lockstep replay (default exact)
  --prompt N         tokens of the first batch (default 5); two more follow, one by one
  --whole            everything that docs/zoo.md tells of, in place of the choices above: three seeds with two deviations; quantised
                     weights; two builds in ggml's arithmetic. Writes docs/measured/zoo.json if all is well
  --jobs N           how many at once (default: all cores)
  --keep DIR         make models and dumps anew and keep them in folders there (about 11 MB for each run)
  --out FILE         write the results as JSON; two such files can be compared

The models come from llama.cpp's own test program (tests/test-llama-archs.cpp). What was replayed by the same lockstep and the same llama.cpp before is not replayed again: a run that was interrupted goes on where it was.
Models are kept in LOCKSTEP_CACHE/zoo, 0.9 GB for each seed with each deviation; whatever is there may be removed.
Prints a table by operator, and what failed, could not be evaluated, or is refused by llama.cpp. Exit status: 0 all nodes are known and
within their budgets; 1 a node is not; 2 something could not run.

environment: LOCKSTEP (the lockstep binary), LOCKSTEP_CACHE, LLAMA_DIR and CXX as for build-llama.sh

examples: scripts/zoo.sh --arch mamba
          scripts/zoo.sh --dozen
          scripts/zoo.sh --build scalar --arithmetic ggml
EOF_USAGE
}

for word in "$@"; do
    case $word in
        -h | --help) usage && exit 0 ;;
    esac
done

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export LOCKSTEP_CACHE=${LOCKSTEP_CACHE:-${HOME:?set HOME or LOCKSTEP_CACHE}/.cache/lockstep}
if [ -z "${LOCKSTEP:-}" ]; then
    cargo build --release --quiet --manifest-path "$HERE/../Cargo.toml"
    LOCKSTEP=$HERE/../target/release/lockstep
fi
export LOCKSTEP
exec python3 "$HERE/zoo-models/zoo.py" "$@"
