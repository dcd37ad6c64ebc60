#!/usr/bin/env bash
# Lets llama.cpp run the probe of each question (or of those named) and asks the question: it must be decided.
# Needs what scripts/build-llama.sh leaves. Usage: scripts/check-probes.sh [QUESTION..]
set -euo pipefail
cd "$(dirname "$0")/.."

cache=${LOCKSTEP_CACHE:-$HOME/.cache/lockstep}
dumper=$cache/bin/llama-dump
if [ ! -x "$dumper" ]; then
  echo "check-probes: $dumper is not there: run scripts/build-llama.sh" >&2
  exit 2
fi
cargo build --release --quiet
lockstep=target/release/lockstep

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
questions=("$@")
if [ ${#questions[@]} -eq 0 ]; then
  mapfile -t questions < <("$lockstep" ask --list | awk 'NF == 0 { exit } { print $1 }')
fi

failed=0
for question in "${questions[@]}"; do
  out=$folder/$question
  "$lockstep" ask --probe "$question" --out "$out" > "$out.txt"
  # The commands that it prints, with the dumper of the cache.
  dump_options=$(sed -n 's/^  llama-dump //p' "$out.txt")
  # shellcheck disable=SC2086 # options are words
  "$dumper" $dump_options > "$out.log" 2>&1 || { cat "$out.log"; exit 2; }
  if answer=$("$lockstep" ask --model "$out/model.gguf" --dump "$out/dump.npz" "$question" --brief); then
    row=$(printf '%s\n' "$answer" | sed -n "/^  question/,\$p" | sed -n 2p)
    case $answer in
      *"1 decided"*) printf '%s\n' "$row" ;;
      *) printf 'NOT DECIDED %s\n' "$row"; failed=1 ;;
    esac
  else
    printf 'NONE FITS %s\n%s\n' "$question" "$answer"
    failed=1
  fi
done
if [ "$failed" -ne 0 ]; then
  echo "check-probes: not every question is decided" >&2
  exit 1
fi
echo "${#questions[@]} probes run by llama.cpp: every question is decided"
