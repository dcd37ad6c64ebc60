#!/usr/bin/env bash
# Everything that scripts/gpu-check.sh needs on a machine with a GPU and nothing else, in one folder and one archive: the program, the
# tests of kernels and engine, the small cases with their models, NVRTC. Needs Rust here and neither Rust nor a network there.
#
#   scripts/gpu-pack.sh FOLDER [--profile release] [--nvrtc FOLDER_OF_LIBNVRTC] [--with-mini] [--no-archive]
#
# Writes FOLDER (anew, unless it is something else) and FOLDER.tar.xz, which must stay below 64 MiB. Without --nvrtc the machine must have
# a libnvrtc.so.13 of its own; `pip download nvidia-cuda-nvrtc==13.0.88` and unzip give one. --with-mini adds the 64 layers of mini-bonsai
# (20 MB of dumps; its model is made where it is checked).
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

usage() {
    sed -n '2,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 2
}

folder="" profile=release nvrtc="" archive=yes
cases=(micro-bonsai nano-mixed-prompt nano-mixed-token rollback sequences early-2026 unfused)
while [ $# -gt 0 ]; do
    case "$1" in
        --profile) profile="${2:?--profile needs a name}"; shift ;;
        --nvrtc) nvrtc="${2:?--nvrtc needs a folder}"; shift ;;
        --with-mini) cases+=(mini-bonsai) ;;
        --no-archive) archive=no ;;
        -*) usage ;;
        *) [ -z "$folder" ] || usage; folder="$1" ;;
    esac
    shift
done
[ -n "$folder" ] || usage
if [ -e "$folder" ] && [ ! -f "$folder/manifest.txt" ]; then
    echo "error: $folder is there and is no pack: name another folder" >&2
    exit 2
fi
if [ -n "$nvrtc" ] && [ ! -f "$nvrtc/libnvrtc.so.13" ]; then
    echo "error: no libnvrtc.so.13 in $nvrtc" >&2
    exit 2
fi

mkdir -p "$(dirname "$folder")"
folder="$(cd "$(dirname "$folder")" && pwd)/$(basename "$folder")"
rm -rf "$folder"
mkdir -p "$folder"/{bin,cases,cache}
: > "$folder/manifest.txt"
cd "$root"

# Cargo says where it put what it built, a JSON document a line.
built() {
    cargo "$@" --profile "$profile" --message-format=json-render-diagnostics |
        sed -n 's/.*"target":{[^}]*"name":"\([^"]*\)".*"executable":"\([^"]*\)".*/\1 \2/p'
}
{ built build --bin lockstep; built test --no-run --test kernels --test gpu_engine; } > "$folder/built.txt"
for name in lockstep kernels gpu_engine; do
    path="$(sed -n "s/^$name //p" "$folder/built.txt" | tail -n 1)"
    [ -n "$path" ] || { echo "error: cargo built no $name" >&2; exit 2; }
    strip -o "$folder/bin/$name" "$path" 2>/dev/null || cp "$path" "$folder/bin/$name"
done
rm "$folder/built.txt"

for case in "${cases[@]}"; do
    cp -r "reference-dumps/$case" "$folder/cases/"
    rm -f "$folder/cases/$case/.gitignore"
    [ "$case" = mini-bonsai ] && continue
    # Whatever is found, and if it takes long: the models are made before anything is asked.
    LOCKSTEP_CACHE="$folder/cache" timeout 20 "$folder/bin/lockstep" ask "$folder/cases/$case" > /dev/null 2>&1 || true
done
ls "$folder"/cache/models/*.gguf > /dev/null
if [ -n "$nvrtc" ]; then
    mkdir -p "$folder/nvrtc"
    cp "$nvrtc"/libnvrtc.so.13 "$nvrtc"/libnvrtc-builtins.so.13.* "$folder/nvrtc/"
fi
cp scripts/gpu-check.sh "$folder/"

changed=""
[ -z "$(git status --porcelain 2> /dev/null)" ] || changed=" and changes"
{
    echo "revision $(git rev-parse HEAD 2> /dev/null || echo unknown)$changed"
    echo "profile $profile"
    echo "packed $(date -u '+%Y-%m-%d %H:%M UTC')"
    (cd "$folder" && find . -type f ! -name manifest.txt -print0 | sort -z | xargs -0 sha256sum)
} > "$folder/manifest.txt"
echo "$folder: $(du -sh "$folder" | cut -f 1)"

if [ "$archive" = yes ]; then
    tar -C "$(dirname "$folder")" -c "$(basename "$folder")" | xz -T0 -6 > "$folder.tar.xz.part"
    mv "$folder.tar.xz.part" "$folder.tar.xz"
    bytes="$(stat -c %s "$folder.tar.xz")"
    echo "$folder.tar.xz: $bytes bytes"
    if [ "$bytes" -gt $((64 << 20)) ]; then
        echo "error: the archive is above 64 MiB: leave out --with-mini or --nvrtc" >&2
        exit 1
    fi
fi
