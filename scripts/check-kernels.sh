#!/usr/bin/env bash
# Compiles every kernel for every architecture, and holds kernels/README.md against what comes out. See --help.
set -euo pipefail

usage() {
    cat <<'EOF2'
check-kernels.sh: compile every kernel with NVRTC, without a GPU; registers, stacks and spills must be within budget

usage: scripts/check-kernels.sh [--help] [--update]

  --update   write the tables of kernels/README.md anew; without it they must be what would be written

Exits 1 if a kernel is over its budget or the tables are stale. NVRTC is fetched by scripts/nvrtc.sh.

environment: LOCKSTEP (the lockstep binary) and LOCKSTEP_CACHE
EOF2
}

UPDATE=0
case ${1:-} in
    -h | --help) usage && exit 0 ;;
    --update) UPDATE=1 ;;
    ?*) echo "check-kernels: error: unknown argument '$1' (see --help)" >&2 && exit 2 ;;
esac

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(dirname "$HERE")
TABLES=$(mktemp)
trap 'rm -f "$TABLES"' EXIT

LIBRARIES=$("$HERE/nvrtc.sh")
if [ -z "${LOCKSTEP:-}" ]; then
    cargo build --release --quiet --manifest-path "$ROOT/Cargo.toml"
    LOCKSTEP=$ROOT/target/release/lockstep
fi
LD_LIBRARY_PATH=$LIBRARIES${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$LOCKSTEP" kernels --arch sm_80,sm_90,sm_120,sm_121 --markdown "$TABLES"

python3 - "$ROOT/kernels/README.md" "$TABLES" "$UPDATE" <<'EOF2'
import pathlib, re, sys
path, tables, update = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).read_text(), sys.argv[3] == "1"
text = path.read_text()
generated = re.compile(r"(<!-- written by scripts/check-kernels\.sh --update -->\n).*?(<!-- end -->\n)", re.S)
new, n = generated.subn(lambda found: f"{found[1]}\n{tables}\n{found[2]}", text)
if n != 1:
    sys.exit(f"kernels/README.md has {n} places for the tables, expected 1")
if update:
    path.write_text(new)
elif new != text:
    pairs = zip(text.splitlines(), new.splitlines())
    old, now = next(((a, b) for a, b in pairs if a != b), ("other numbers of lines", ""))
    sys.exit(f"kernels/README.md is stale: scripts/check-kernels.sh --update\n  there: {old}\n  now:   {now}")
EOF2
