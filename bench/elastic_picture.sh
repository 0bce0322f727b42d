#!/usr/bin/env bash
# Trains the digits in an elastic job in which processes are lost and others join, and draws what happens: the number of
# ranks, the loss, and the pauses. Compares the loss with that of an undisturbed training.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/programs.sh"

picture=$bench_root/docs/elastic.svg epochs=100
usage() {
  cat <<TEXT
usage: bench/elastic_picture.sh [-o FILE] [-e EPOCHS] [-B DIR]
  -o FILE    the picture (docs/elastic.svg)
  -e EPOCHS  how long the training is ($epochs)
  -B DIR     where the programs are (the release build, or PATH)
TEXT
}

while getopts :o:e:B:h option; do
  case $option in
    o) picture=$OPTARG ;;
    e) epochs=$(whole -e "$OPTARG") ;;
    B) bin=$OPTARG ;;
    h) usage && exit ;;
    *) usage >&2 && exit 2 ;;
  esac
done
((epochs >= 20)) || fail "-e '$epochs' leaves no time for the events; give at least 20"
anello=$(need_program anello)
train=("$(need_program anello-train)" --global-batch 16 --epochs "$epochs")
need_gnuplot bench/elastic_picture.sh

scratch=$(mktemp -d) launcher=
trap 'kill "$launcher" 2>/dev/null || true; rm -rf -- "$scratch"' EXIT
export ANELLO_FLIGHT_DIR=none ANELLO_SILENCE_LIMIT=2000
"${train[@]}" --log "$scratch/undisturbed" >"$scratch/undisturbed.out"
# shellcheck disable=SC2016
"$anello" run -n 4 --min-np 2 --max-np 8 -- sh -c 'echo "$ANELLO_JOB" >"$0"; exec "$@"' "$scratch/job" \
  "${train[@]}" --elastic --log "$scratch/log" >"$scratch/out" 2>&1 &
launcher=$!

# after PART COMMAND...: runs the command after PART of 20 parts of the training.
after() {
  local epoch=$((epochs * $1 / 20))
  until grep -q "\"epoch\":$epoch," "$scratch/log" 2>/dev/null; do
    kill -0 "$launcher" 2>/dev/null || { cat -- "$scratch/out" >&2 && fail "the training has ended too early"; }
    sleep 0.05
  done
  "${@:2}" >>"$scratch/events"
}
# The process, or the whole training, may have ended meanwhile.
resize() { "$anello" resize --job "$(<"$scratch/job")" "$1" || true; }
signal() {
  local pid
  pid=$("$anello" status "$(<"$scratch/job")" | sed -n "s/^process $2 on .*, pid \([0-9]*\).*/\1/p") || true
  [[ -z $pid ]] || kill "-$1" "$pid" || true
}
after 2 signal KILL 0
after 5 resize 8
after 8 signal STOP 2
after 11 resize 3
after 14 signal KILL 1
after 16 resize 6
wait "$launcher" || { cat -- "$scratch/out" >&2 && fail "the job failed"; }

# Lines "world seconds ranks paused_ms" and "epoch seconds loss", and the largest difference of a loss as a comment.
awk '
  function value(name,   parts) {
    return split($0, parts, "\"" name "\":\"?") > 1 ? substr(parts[2], 1, match(parts[2], /["},]/) - 1) : ""
  }
  FNR == NR { if (value("event") == "epoch") loss[value("epoch")] = value("train_loss"); next }
  !start { start = value("time") }
  value("event") == "world" { print "world", value("time") - start, value("ranks"), worlds++ ? value("paused_ms") : 0 }
  value("event") == "epoch" {
    other = loss[value("epoch")]
    difference = (value("train_loss") - other) / other
    if (difference < 0) difference = -difference
    if (difference > largest) largest = difference
    print "epoch", (last = value("time") - start), value("train_loss")
  }
  END { print "end", last, largest }' "$scratch/undisturbed" "$scratch/log" >"$scratch/points"
draw elastic.gp "$picture" "$scratch/points" "machine='$(machine)'"
