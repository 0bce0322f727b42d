#!/usr/bin/env bash
# Measures how the trainer scales: samples per second, efficiency, and the share of time spent communicating, for
# several numbers of ranks on this machine. Weak scaling: every rank has a batch of the same size. Strong scaling: the
# ranks share one batch.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/programs.sh"

worlds=1,2,4 epochs=5 batch=64
usage() {
  cat <<TEXT
usage: bench/scaling.sh [-n 1,2,4] [-e EPOCHS] [-b BATCH] [-B DIR] [-- anello-train arguments]
  -n LIST    numbers of ranks ($worlds); efficiency is relative to the first
  -e EPOCHS  of each run ($epochs); the first is not counted unless it is the only one
  -b BATCH   samples in a step: of each rank when weak, of all together when strong ($batch)
  -B DIR     where anello and anello-train are (the release build, or PATH)
TEXT
}

while getopts :n:e:b:B:h option; do
  case $option in
    n) worlds=$OPTARG ;;
    e) epochs=$(whole -e "$OPTARG") ;;
    b) batch=$(whole -b "$OPTARG") ;;
    B) bin=$OPTARG ;;
    h) usage && exit ;;
    *) usage >&2 && exit 2 ;;
  esac
done
shift $((OPTIND - 1))
[[ $worlds =~ ^[1-9][0-9]{0,3}(,[1-9][0-9]{0,3})*$ ]] || fail "-n '$worlds' is not a list of numbers such as 1,2,4"
IFS=, read -ra worlds <<<"$worlds"
anello=$(need_program anello)
train=$(need_program anello-train)

scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT

# Prints the figures of each epoch in a log: samples per second, and the share of communication.
figures() {
  sed -n '/"event": *"epoch"/{
    s/.*"communication_share": *\([-+.eE0-9]*\).*"samples_per_second": *\([-+.eE0-9]*\).*/\2 \1/p;t
    s/.*"samples_per_second": *\([-+.eE0-9]*\).*"communication_share": *\([-+.eE0-9]*\).*/\1 \2/p
  }' "$1"
}

# run RANKS FLAG [ARGUMENTS]: prints "ranks samples/s share", medians over the epochs.
run() {
  local ranks=$1 flag=$2 log=$scratch/log
  shift 2
  rm -f -- "$log"
  "$anello" run -n "$ranks" -- "$train" "$flag" "$batch" --epochs "$epochs" --log "$log" "$@" >"$scratch/out" 2>&1 || {
    tail -n 20 -- "$scratch/out" >&2
    fail "anello-train failed on $ranks ranks (see above)"
  }
  figures "$log" | awk -v ranks="$ranks" "$awk_quantile"'
    NR > 1 { rate[NR - 1] = $1; share[NR - 1] = $2 } { only_rate = $1; only_share = $2 }
    END {
      if (NR == 0) exit 1
      if (NR == 1) print ranks, only_rate, only_share
      else print ranks, quantile(rate, NR - 1, 0.5), quantile(share, NR - 1, 0.5)
    }' || fail "anello-train wrote no epoch to its log on $ranks ranks"
}

table() {
  awk 'BEGIN { printf "%6s %12s %11s %14s\n", "ranks", "samples/s", "efficiency", "communication" }
    NR == 1 { base = $2 / $1 }
    { printf "%6d %12.0f %9.0f %% %12.1f %%\n", $1, $2, 100 * $2 / ($1 * base), 100 * $3 }'
}

measure() {
  local flag=$1 ranks
  shift
  for ranks in "${worlds[@]}"; do run "$ranks" "$flag" "$@" || return; done
}

printf 'weak: %s samples a step on each rank (%s cores)\n' "$batch" "$(nproc)"
measure --batch "$@" >"$scratch/weak"
table <"$scratch/weak"
printf 'strong: %s samples a step shared by all ranks (%s cores)\n' "$batch" "$(nproc)"
measure --global-batch "$@" >"$scratch/strong"
table <"$scratch/strong"
