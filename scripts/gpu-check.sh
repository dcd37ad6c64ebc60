#!/usr/bin/env bash
# Everything that is to be tried and measured on a GPU, part by part, into one report. Needs a pack (scripts/gpu-pack.sh) and a driver; no
# Rust, no network.
#
#   gpu-check.sh OUT [--pack FOLDER] [--engine cuda|simt] [--small] [--only PART,PART] [--resume] [--limit SECONDS] [--list]
#
#   --pack    the pack; default: the folder of this script
#   --engine  simt: try the script itself on the emulator, whose times mean nothing (also LOCKSTEP_GPU_ENGINE)
#   --small   fewer tests and small sizes
#   --only    these parts, or all whose name begins so
#   --resume  parts that passed for the same pack and engine are not run again
#   --limit   the most that a part may take; default 900
#
# A part that fails does not stop the others. OUT/report.md is written anew after each part; OUT/parts has what each of them printed.
# Exit code 0: all parts that must pass did; 1: one did not, or nothing was run; 2: it could not run.
set -uo pipefail

usage() {
    sed -n '2,17s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 2
}

out="" pack="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)" engine="${LOCKSTEP_GPU_ENGINE:-cuda}"
small=no only="" resume=no limit=900 list=no
while [ $# -gt 0 ]; do
    case "$1" in
        --pack) pack="${2:?--pack needs a folder}"; shift ;;
        --engine) engine="${2:?--engine needs a name}"; shift ;;
        --small) small=yes ;;
        --only) only="${2:?--only needs names}"; shift ;;
        --resume) resume=yes ;;
        --limit) limit="${2:?--limit needs seconds}"; shift ;;
        --list) list=yes ;;
        -*) usage ;;
        *) [ -z "$out" ] || usage; out="$1" ;;
    esac
    shift
done
[ -n "$out" ] || [ "$list" = yes ] || usage
case "$engine" in cuda | simt) ;; *) usage ;; esac
[ "$engine" = cuda ] || small=yes # the emulator gets through nothing else
if [ ! -f "$pack/manifest.txt" ]; then
    echo "error: $pack has no manifest.txt: make a pack with scripts/gpu-pack.sh and name it with --pack" >&2
    exit 2
fi
pack="$(cd "$pack" && pwd)"
lockstep="$pack/bin/lockstep"

# What parts there are: name, then the command. A command that says why it has nothing to do exits with NOT_RUN.
NOT_RUN=77
parts=(device kernel-tests engine-tests)
cases=()
for folder in "$pack"/cases/*/; do
    case="$(basename "$folder")"
    case "$small $case" in yes\ nano* | yes\ rollback | no\ *) cases+=("$case") ;; esac
done
others=(cpu)
[ "$engine" = simt ] || others+=(simt)
for case in "${cases[@]}"; do parts+=("check-$case" "beside-$case"); done
parts+=(invariants dumps sanitizer-memcheck sanitizer-racecheck sanitizer-initcheck sanitizer-synccheck bench-kernels bench-model)
if [ "$list" = yes ]; then
    printf '%s\n' "${parts[@]}"
    exit 0
fi

mkdir -p "$out/parts" "$out/cache" "$out/tmp" || exit 2
out="$(cd "$out" && pwd)"
cp -rn "$pack/cache/." "$out/cache/" 2> /dev/null || true
export LOCKSTEP_CACHE="$out/cache" TMPDIR="$out/tmp" RUST_BACKTRACE=1
export LD_LIBRARY_PATH="$pack/nvrtc${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
if [ "$engine" = cuda ]; then export LOCKSTEP_DRIVER=cuda; else unset LOCKSTEP_DRIVER; fi
revision="$(sed -n 's/^revision //p' "$pack/manifest.txt")"
key="$(sha256sum "$pack/manifest.txt" | cut -c 1-16) $engine $small"

model="" # of micro-bonsai: what `run` runs
for file in "$out"/cache/models/micro-bonsai*.gguf; do
    case "$file" in *.unfolded.gguf | *f32*) ;; *) [ -f "$file" ] && model="$file" ;; esac
done

part_device() {
    if [ "$engine" = cuda ]; then nvidia-smi || echo "(no nvidia-smi)"; fi
    "$lockstep" run "$model" --tokens 7,300,12 --engine "$engine"
}

# Small: a few kernels only.
filter() { [ "$small" = no ] || echo binary unary mul_mat_vec_split; }

# Runs tests, of which one at least must have been run.
tests() {
    local code said="$out/tmp/tests.txt"
    "$@" 2>&1 | tee "$said"
    code=${PIPESTATUS[0]}
    grep -q '^test result: .*[1-9][0-9]* passed' "$said" || { echo "no test passed"; [ "$code" != 0 ] || code=1; }
    return "$code"
}

part_kernel-tests() { tests "$pack/bin/kernels" $(filter); }

part_engine-tests() { tests "$pack/bin/gpu_engine" $([ "$small" = no ] || echo recorded::launches few_launches_and_many); }

# `check` of a case in the most modes that its dumps allow. An engine that says that it cannot run a case has not failed.
check() {
    local case="$1" of="$2" code
    "$lockstep" check "$pack/cases/$case" --engine "$of" --json "$out/parts/check-$case.$of.json" > "$out/parts/check-$case.$of.txt" 2>&1
    code=$?
    cat "$out/parts/check-$case.$of.txt"
    if [ $code = 2 ] && grep -q 'cannot run this' "$out/parts/check-$case.$of.txt"; then return $NOT_RUN; fi
    return $code
}

# What a check found but for how near to its limit the worst tensor is, which differs from engine to engine.
verdict_of() { sed -n '$s/; worst .*//p' "$out/parts/check-$1.$2.txt"; }

# The same case on the other engines: they must pass, and count the same.
part_beside() {
    local case="$1" of code=0 expected
    if [ ! -s "$out/parts/check-$case.$engine.txt" ]; then echo "not run: check-$case comes first"; return $NOT_RUN; fi
    if grep -q 'cannot run this' "$out/parts/check-$case.$engine.txt"; then echo "not run: $(tail -n 1 "$out/parts/check-$case.$engine.txt")"; return $NOT_RUN; fi
    expected="$(verdict_of "$case" "$engine")"
    echo "$engine: $expected"
    [ -n "$expected" ] || code=1
    for of in "${others[@]}"; do
        check "$case" "$of" > /dev/null || code=1
        echo "$of: $(verdict_of "$case" "$of")"
        [ "$(verdict_of "$case" "$of")" = "$expected" ] || { echo "$of and $engine differ in their verdicts"; code=1; }
    done
    [ $code = 0 ] && echo "the same verdict: $expected"
    return $code
}

part_invariants() {
    local lengths=()
    [ "$small" = no ] || lengths=(--lengths 3)
    "$lockstep" invariants "$model" --engine "$engine" "${lengths[@]}"
}

# A run of each engine, every named tensor, compared pair by pair.
part_dumps() {
    local code=0 of
    local tokens=7,300,12,45,501,300,222 schedule=5,1,1
    [ "$small" = no ] || { tokens=7,300,12 schedule=2,1; }
    for of in "$engine" "${others[@]}"; do
        "$lockstep" run "$model" --tokens "$tokens" --schedule "$schedule" --engine "$of" --dump "$out/tmp/$of.npz" || return 1
    done
    for of in "${others[@]}"; do
        echo "== $of as the reference, $engine beside it"
        "$lockstep" diagnose "$out/tmp/$of.npz" "$out/tmp/$engine.npz"
        # 0: equal; 1: a difference, which is one beyond the limit of a right engine only if it is named.
        [ $? = 0 ] || code=1
    done
    return $code
}

part_sanitizer() {
    local tool="$1"
    if [ "$engine" != cuda ]; then echo "not run: the emulator watches memory and barriers by itself"; return $NOT_RUN; fi
    if ! command -v compute-sanitizer > /dev/null; then echo "not run: there is no compute-sanitizer"; return $NOT_RUN; fi
    tests compute-sanitizer --tool "$tool" --error-exitcode 86 "$pack/bin/kernels" $(filter) --test-threads 1
}

part_bench-kernels() {
    "$lockstep" bench kernels --engine "$engine" $([ "$small" = no ] || echo --small) --json "$out/bench-kernels.json"
}

part_bench-model() {
    "$lockstep" bench model --engine "$engine" $([ "$small" = no ] || echo --small) --json "$out/bench-model.json"
}

command_of() {
    case "$1" in
        check-*) check "${1#check-}" "$engine" ;;
        beside-*) part_beside "${1#beside-}" ;;
        sanitizer-*) part_sanitizer "${1#sanitizer-}" ;;
        *) "part_$1" ;;
    esac
}

is_wanted() {
    [ -n "$only" ] || return 0
    local name
    for name in ${only//,/ }; do case "$1" in "$name"*) return 0 ;; esac done
    return 1
}

status_of() { cut -d ' ' -f "$2" "$out/parts/$1.status" 2> /dev/null; }

# A verdict counts for this pack and engine only.
is_current() { [ "$(sed -n 2p "$out/parts/$1.status" 2> /dev/null)" = "$key" ]; }

child=""
run_part() {
    local part="$1" start code verdict log="$out/parts/$1.log"
    rm -f "$out/parts/$part.status"
    start=$(date +%s)
    # In a shell of its own process group, so that all of it ends when its time is up.
    setsid bash -c "$(declare -f); $(declare -p lockstep out pack engine small model others NOT_RUN); command_of '$part'" > "$log" 2>&1 &
    child=$!
    (
        trap 'kill $!; exit' TERM
        sleep "$limit" &
        wait $!
        kill -TERM -- -"$child" && sleep 5 && kill -KILL -- -"$child"
    ) 2> /dev/null &
    local watch=$!
    wait "$child"
    code=$?
    child=""
    kill "$watch" 2> /dev/null
    wait "$watch" 2> /dev/null
    case $code in
        0) verdict=pass ;;
        "$NOT_RUN") verdict=not-run ;;
        143 | 137) verdict=TIMEOUT ;;
        *) verdict=FAIL ;;
    esac
    printf '%s %s %s\n%s\n' "$verdict" "$(($(date +%s) - start))" "$code" "$key" > "$out/parts/$part.status.part"
    mv "$out/parts/$part.status.part" "$out/parts/$part.status"
    echo "$part: $verdict ($(status_of "$part" 2 | head -n 1) s)"
}

# The line of a log that says most.
word() {
    local log="$out/parts/$1.log"
    case "$1" in
        *-tests) grep '^test result' "$log" | sed 's/^test result: //' | tail -n 1 ;;
        bench-*) grep -m 1 'copy rate' "$log" ;;
        *) grep -v '^ *$' "$log" | tail -n 1 ;;
    esac | tr '|' '/' | cut -c 1-200
}

report() {
    local part state
    {
        if [ "$engine" = simt ]; then echo "# Report of a run on the EMULATOR"
        elif [ "$(status_of device 1 | head -n 1)" = pass ]; then echo "# Report of a run on a GPU"
        else echo "# Report of an attempt: no device is known to have run anything"; fi
        echo
        [ "$engine" = cuda ] || echo '**EMULATED: nothing here was measured on a GPU, and no time means anything.**
'
        if [ "$engine" = cuda ]; then
            echo "- device, driver, memory, clocks: $(nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm,clocks.max.mem --format=csv,noheader 2> /dev/null | head -n 1 || true)"
        fi
        echo "- $(grep -h -m 1 '^device ' "$out/parts/bench-kernels.log" "$out/parts/bench-model.log" 2> /dev/null | head -n 1 || true)"
        echo "- date: $(date -u '+%Y-%m-%d %H:%M UTC')"
        echo "- revision: $revision"
        echo "- profile: $(sed -n 's/^profile //p' "$pack/manifest.txt"); sizes: $([ "$small" = no ] && echo full || echo small)"
        echo
        echo '| part | verdict | seconds | in short |'
        echo '|---|---|---:|---|'
        for part in "${parts[@]}"; do
            if is_current "$part"; then
                echo "| $part | $(status_of "$part" 1 | head -n 1) | $(status_of "$part" 2 | head -n 1) | $(word "$part") |"
            else
                echo "| $part | not-run | | not asked for, or not reached |"
            fi
        done
        for part in bench-kernels bench-model; do
            is_current "$part" && [ "$(status_of "$part" 1 | head -n 1)" = pass ] || continue
            printf '\n## %s\n\n' "$part"
            cat "$out/parts/$part.log"
        done
        printf '\n## Not run\n\n'
        for part in "${parts[@]}"; do
            state="$(status_of "$part" 1 | head -n 1)"
            if ! is_current "$part"; then echo "- $part: not asked for, or not reached"
            elif [ "$state" = not-run ]; then echo "- $part: $(word "$part")"; fi
        done
        for part in "${parts[@]}"; do
            state="$(status_of "$part" 1 | head -n 1)"
            if is_current "$part" && { [ "$state" = FAIL ] || [ "$state" = TIMEOUT ]; }; then
                printf '\n## %s: %s\n\n```text\n' "$part" "$state"
                tail -n 40 "$out/parts/$part.log"
                echo '```'
            fi
        done
    } > "$out/report.md.part"
    mv "$out/report.md.part" "$out/report.md"
}

interrupted() {
    [ -z "$child" ] || kill -TERM -- -"$child" 2> /dev/null
    report
    echo "interrupted: $out/report.md has what was done; go on with --resume" >&2
    exit 1
}
trap interrupted INT TERM

if [ -z "$model" ]; then
    echo "error: $pack/cache has no model of micro-bonsai: make the pack anew" >&2
    exit 2
fi
for part in "${parts[@]}"; do
    is_wanted "$part" || continue
    if [ "$resume" = yes ] && is_current "$part" && [ "$(status_of "$part" 1 | head -n 1)" = pass ]; then
        echo "$part: passed before"
        continue
    fi
    run_part "$part"
    report
    if [ "$part" = device ] && [ "$(status_of device 1 | head -n 1)" != pass ]; then
        echo "error: the device does not run anything: $(tail -n 1 "$out/parts/device.log")" >&2
        exit 2
    fi
done
report

# What must pass: every part that was asked for and can be run here; and something must have been.
passed=0 failed=0
for part in "${parts[@]}"; do
    is_wanted "$part" || continue
    case "$(is_current "$part" && status_of "$part" 1 | head -n 1)" in
        pass) passed=$((passed + 1)) ;;
        not-run) ;;
        *) failed=$((failed + 1)) ;;
    esac
done
echo "$passed passed, $failed did not; $out/report.md"
[ $failed = 0 ] && [ $passed -gt 0 ]
