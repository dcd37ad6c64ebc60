#!/usr/bin/env bash
# Fetches NVIDIA's run-time compiler, which compiles kernels and needs no GPU. See --help.
set -euo pipefail

usage() {
    cat <<'EOF2'
nvrtc.sh: fetch NVRTC 13.0.88 from its package on PyPI, and print the folder that belongs into LD_LIBRARY_PATH

usage: LD_LIBRARY_PATH=$(scripts/nvrtc.sh) lockstep kernels --arch sm_90

It stays in ${LOCKSTEP_CACHE:-$HOME/.cache/lockstep}/nvrtc-13.0.88 (110 MB); a second call fetches nothing. Linux on x86-64 only.

environment: LOCKSTEP_CACHE
EOF2
}

VERSION=13.0.88
# of the wheel for Linux on x86-64
SHA256=ad9b6d2ead2435f11cbb6868809d2adeeee302e9bb94bcf0539c7a40d80e8575
FOLDER=${LOCKSTEP_CACHE:-${HOME:?set HOME or LOCKSTEP_CACHE}/.cache/lockstep}/nvrtc-$VERSION

# Where it is unpacked; gone at the end, whatever happens.
SCRATCH=
trap '[ -z "$SCRATCH" ] || rm -rf "$SCRATCH"' EXIT

say() { echo "nvrtc: $*" >&2; }
die() {
    say "error: $*"
    exit 2
}

case ${1:-} in
    -h | --help) usage && exit 0 ;;
    ?*) die "unknown argument '$1' (see --help)" ;;
esac

if [ ! -d "$FOLDER" ]; then
    [ "$(uname -sm)" = "Linux x86_64" ] || die "only fetched for Linux on x86-64: install CUDA 13.0's NVRTC yourself"
    mkdir -p "$(dirname "$FOLDER")"
    SCRATCH=$(mktemp -d "$FOLDER.tmp.XXXXXX")
    say "fetching nvidia-cuda-nvrtc $VERSION from PyPI"
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$SCRATCH" \
        "nvidia-cuda-nvrtc==$VERSION" >&2 || die "pip could not download it (its message is above)"
    python3 - "$SCRATCH" "$SHA256" <<'EOF2' || die "NVRTC could not be unpacked"
import hashlib, pathlib, shutil, sys, zipfile
folder, sha = pathlib.Path(sys.argv[1]), sys.argv[2]
[wheel] = folder.glob("*.whl")
with open(wheel, "rb") as file:
    got = hashlib.file_digest(file, "sha256").hexdigest()
if got != sha:
    sys.exit(f"{wheel.name} has sha256 {got}, expected {sha}")
(folder / "lib").mkdir()
with zipfile.ZipFile(wheel) as parts:
    # `.alt` are further builds of both, which are not needed.
    members = [name for name in parts.namelist() if "/lib/libnvrtc" in name and ".alt." not in name]
    for name in members:
        with parts.open(name) as part, open(folder / "lib" / pathlib.Path(name).name, "wb") as out:
            shutil.copyfileobj(part, out)
if len(members) != 2:
    sys.exit(f"{wheel.name} holds {members}, expected the compiler and its builtins")
EOF2
    # Another call may have been faster.
    mv -T "$SCRATCH/lib" "$FOLDER" 2>/dev/null || [ -d "$FOLDER" ] || die "could not write $FOLDER"
fi
echo "$FOLDER"
