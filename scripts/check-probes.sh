#!/usr/bin/env bash
# Lets llama.cpp run the probe of each question (or of those named) and asks the question: it must be decided.
# Needs what scripts/build-llama.sh leaves. Usage: scripts/check-probes.sh [QUESTION..]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

dumper=${LOCKSTEP_CACHE:-$HOME/.cache/lockstep}/bin/llama-dump
if [ ! -x "$dumper" ]; then
  echo "check-probes: $dumper is not there: run scripts/build-llama.sh" >&2
  exit 2
fi
cargo build --release --quiet
export LOCKSTEP=$PWD/target/release/lockstep

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
questions=("$@")
if [ ${#questions[@]} -eq 0 ]; then
  mapfile -t questions < <("$LOCKSTEP" ask --list | awk 'NF == 0 { exit } { print $1 }')
fi

failed=0
for question in "${questions[@]}"; do
  out=$folder/$question
  "$LOCKSTEP" ask --probe "$question" --out "$out" > "$out.txt"
  # The script runs both programs; of its output the rows of the answer are shown.
  if answer=$(bash "$out/run.sh" --brief 2> "$out.log") && [[ $answer == *"1 decided"* ]]; then
    printf '%s\n' "$answer" | awk '/^  question/ { on = 1; next } NF == 0 { on = 0 } on'
  else
    printf 'NOT DECIDED: %s\n%s\n' "$question" "$answer"
    tail -5 "$out.log"
    failed=1
  fi
done
if [ "$failed" -ne 0 ]; then
  echo "check-probes: not every question is decided" >&2
  exit 1
fi
echo "${#questions[@]} probes run by llama.cpp: every question is decided"
