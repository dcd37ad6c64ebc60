#!/usr/bin/env bash
# Remakes tests/goldens/ops/, or proves that the committed files are what ggml-cpu gives. See --help.
set -Eeuo pipefail
trap 'echo "make-op-goldens: failed at line $LINENO" >&2' ERR

usage() {
    cat <<'EOF'
make-op-goldens.sh: remake the goldens of single operators in tests/goldens/ops/

usage: scripts/make-op-goldens.sh [--verify]

Builds llama.cpp and op-goldens (scripts/op-goldens/, see build-llama.sh --help) and lets it compute every case in ggml-cpu.

  --verify   write to a scratch folder instead, and fail if a file differs from the committed one. Another compiler, libc or
             CPU can change last bits.

environment: LOCKSTEP_CACHE, LLAMA_DIR, CXX as for build-llama.sh
EOF
}

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
FOLDER=$(dirname "$HERE")/tests/goldens/ops
CACHE=${LOCKSTEP_CACHE:-${HOME:?set HOME or LOCKSTEP_CACHE}/.cache/lockstep}

case ${1:-} in
    "" | --verify) ;;
    -h | --help) usage && exit 0 ;;
    *) echo "make-op-goldens: unknown argument '$1' (see --help)" >&2 && exit 2 ;;
esac

"$HERE/build-llama.sh" op-goldens >&2
SCRATCH=$(mktemp -d)
trap 'rm -rf "$SCRATCH"' EXIT
"$CACHE/bin/op-goldens" "$SCRATCH"
if [ "${1:-}" = --verify ]; then
    diff -rq "$FOLDER" "$SCRATCH" || { echo "make-op-goldens: the files differ" >&2 && exit 1; }
    echo "all equal to the committed files"
else
    mkdir -p "$FOLDER"
    rm -f "$FOLDER"/*.json
    cp "$SCRATCH"/*.json "$FOLDER"
fi
