#!/usr/bin/env bash
# Rebuilds the reference dumps, or proves that the committed ones are what llama.cpp gives. See --help.
set -Eeuo pipefail
trap 'echo "make-references: failed at line $LINENO" >&2' ERR

usage() {
    cat <<'EOF'
make-references.sh: rebuild the dumps in reference-dumps/, or verify the committed ones

usage: scripts/make-references.sh [--verify] [CASE..]

For every case (default: all folders of reference-dumps/ whose dumps are committed) it makes the model from its recipe and, if it
is folded, its twin that llama.cpp can run, or fetches the model (real-models.sh --fetch); builds llama.cpp and llama-dump, in
each variant that a dump of the case needs; and runs each [[dump]] of the case.

  --verify   write to a scratch folder instead, and compare with what is committed. A dump passes if it is the same file, or
             if every payload is bit-identical and the manifests differ in nothing but `producer`. Exits 1 otherwise.
             Another compiler, libc or CPU can change last bits; if the producers differ, the verdict says in what.

environment:
  LOCKSTEP        the lockstep binary (default: cargo run --release)
  LOCKSTEP_CACHE  see build-llama.sh --help; scratch files live there too, and are gone afterwards
  LLAMA_DIR       see build-llama.sh --help; dumps of another tree carry another producer

case.toml:
  [model]                          # lockstep synth PRESET --seed N --type T, then lockstep unfold if it is folded
  preset = "mini-bonsai"
  seed = 1
  type = "pq2_0"                   # or, in place of the three: fetch = "smollm2"
  [[dump]]
  file = "token-1.npz"
  command = ["-t", "7", "--named"] # options of llama-dump apart from -m and --out
  build = "unfused"                # only if it is not the usual one: build-llama.sh --build unfused
  committed = false                # only if it is too large for the repository: made where the case is named
EOF
}

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(dirname "$HERE")
CACHE=${LOCKSTEP_CACHE:-${HOME:?set HOME or LOCKSTEP_CACHE}/.cache/lockstep}
VERIFY=0
CASES=()

say() { echo "make-references: $*" >&2; }
die() {
    say "error: $*"
    exit 2
}

for argument in "$@"; do
    case $argument in
        -h | --help) usage && exit 0 ;;
        --verify) VERIFY=1 ;;
        -*) die "unknown option '$argument' (see --help)" ;;
        *) CASES+=("$(basename "$argument")") ;;
    esac
done

command -v python3 >/dev/null || die "python3 is missing (Debian: apt-get install python3 python3-pip)"

if [ ${#CASES[@]} -eq 0 ]; then
    for toml in "$ROOT"/reference-dumps/*/case.toml; do
        [ -f "$toml" ] || continue
        if [ "$(python3 "$HERE/llama-dump/read_case.py" committed "$toml")" = yes ]; then
            CASES+=("$(basename "$(dirname "$toml")")")
        fi
    done
fi
[ ${#CASES[@]} -gt 0 ] || die "reference-dumps/ holds no case.toml"

lockstep() {
    if [ -n "${LOCKSTEP:-}" ]; then
        "$LOCKSTEP" "$@"
    else
        cargo run --release --quiet --manifest-path "$ROOT/Cargo.toml" -- "$@"
    fi
}

mkdir -p "$CACHE"
CACHE=$(cd "$CACHE" && pwd)
SCRATCH=$(mktemp -d "$CACHE/references.XXXXXX")
trap 'rm -rf "$SCRATCH"' EXIT

read_case() { python3 "$HERE/llama-dump/read_case.py" "$@"; }

# The model that llama.cpp runs: fetched, made, or the twin of a folded one.
put_model() { # CASE-FOLDER OUT
    local recipe=() folded=$SCRATCH/folded.gguf
    mapfile -t recipe < <(read_case model "$1/case.toml")
    case ${recipe[0]:-}:${recipe[3]:-} in
        fetched:*)
            "$HERE/real-models.sh" --fetch "${recipe[1]}" >&2 || die "${recipe[1]} could not be fetched"
            ln -s "$CACHE/real-models/${recipe[1]}.gguf" "$2"
            ;;
        made:pq2_0 | made:ptq1_0)
            make_model "${recipe[@]:1}" "$folded"
            lockstep unfold "$folded" "$2" >&2 || die "lockstep unfold failed"
            rm -f "$folded"
            ;;
        made:?*) make_model "${recipe[@]:1}" "$2" ;;
        *) die "cannot read $1/case.toml" ;;
    esac
}

make_model() { # PRESET SEED TYPE OUT
    say "making $1, seed $2, type $3"
    lockstep synth "$1" --seed "$2" --type "$3" --out "$4" >&2 || die "lockstep synth failed"
}

BUILT=" "
differing=0
compared=0
made=0

one_dump() { # CASE MODEL FILE BUILD OPTION..
    local case=$1 model=$2 file=$3 program=llama-dump fresh=$SCRATCH/fresh.npz committed=$ROOT/reference-dumps/$1/$3
    [ "$4" = pinned ] || program=llama-dump-$4
    shift 4
    say "$case/$file: $program $*"
    "$CACHE/bin/$program" -m "$model" --out "$fresh" "$@" >&2 || die "$case/$file: $program failed with status $? (its message is above)"
    python3 "$HERE/llama-dump/check_dump.py" "$fresh" >&2 || die "$case/$file breaks a rule of the format"
    if [ "$VERIFY" = 1 ]; then
        compared=$((compared + 1))
        python3 "$HERE/llama-dump/compare_dumps.py" "$case/$file" "$committed" "$fresh" || differing=$((differing + 1))
        rm -f "$fresh"
    else
        mv "$fresh" "$committed"
        made=$((made + 1))
        echo "made $case/$file, $(wc -c <"$committed") bytes"
    fi
}

ensure_build() { # BUILD
    case $BUILT in *" $1 "*) return ;; esac
    if [ "$1" = pinned ]; then "$HERE/build-llama.sh" >&2; else "$HERE/build-llama.sh" --build "$1" >&2; fi
    BUILT="$BUILT$1 "
}

one_case() { # CASE
    local folder=$ROOT/reference-dumps/$1 model=$SCRATCH/$1.gguf n index build
    [ -f "$folder/case.toml" ] || die "there is no case $1 (no $folder/case.toml)"
    n=$(read_case count "$folder/case.toml") || die "cannot read $folder/case.toml"
    for build in $(read_case builds "$folder/case.toml"); do
        ensure_build "$build"
    done
    put_model "$folder" "$model"
    for ((index = 0; index < n; index++)); do
        local fields=()
        mapfile -d '' -t fields < <(read_case dump "$folder/case.toml" "$index")
        one_dump "$1" "$model" "${fields[@]}"
    done
    rm -f "$model"
}

started=$SECONDS
for case in "${CASES[@]}"; do
    one_case "$case"
done

if [ "$VERIFY" = 1 ]; then
    echo "$compared dumps verified: $((compared - differing)) pass, $differing fail, in $((SECONDS - started)) s"
    [ "$differing" = 0 ] && [ "$compared" -gt 0 ]
else
    echo "$made dumps made in $((SECONDS - started)) s"
fi
