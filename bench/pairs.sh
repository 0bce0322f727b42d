# Makes the measurement of compare.sh and netns.sh; sourced after contenders.sh. Measures a world of $world ranks, for the
# list $sizes in bytes, in $rounds rounds, with calls for $budget_ms, and with $sentinel. Appends to two files in the
# folder $scratch: "pairs", which summary.sh reads, and "states".
# shellcheck shell=bash disable=SC2154

say() { printf '%s\n' "$*" >&2; }

# Programs that expect one core for each rank are slowed down most by other work on these cores.
warn_if_busy() {
  awk -v cores="$cores" '$1 > cores / 2 {
    print "careful: the load average is " $1 " on " cores " cores; others are at work here, and what is measured is how we share with them"
  }' /proc/loadavg
}

# run CONTENDER SIZES FLAGS...: runs one program over a list of sizes in bytes; prints lines "placement size p50 mean",
# in microseconds, and with the flag --loopback the bytes that a call sent over the loopback interface.
run() {
  local contender=$1 list=$2 command
  shift 2
  place_ranks
  "${contender%% *}_command" "${contender#* }"
  timeout 300 "${command[@]}" -s "$list" "$@" >"$scratch/out" 2>&1 </dev/null || {
    tail -n 20 -- "$scratch/out" >&2
    fail "$contender failed on $world ranks (see above)"
  }
  sed 's/^\[[^]]*\]\(<[a-z]*>:\)\{0,1\} *//' "$scratch/out" | awk -v list="$list" '
    /^# loopback: / { apart = $3; within = $4 }
    /^ *[0-9]/ && NF == 16 { print "in-place", $1, $11, $16, within; print "out-of-place", $1, $5, $10, apart; found++ }
    END { exit found != split(list, sizes, ",") }' || fail "$contender did not print figures of $list bytes on $world ranks"
}

# on_its_transport CONTENDER: passes on the lines of run --loopback. Leaves out, and names, the sizes at which the
# program did not use the transport that is compared. An allreduce sends at least 2(n-1) messages of all bytes, each
# with a header of TCP; a quarter of them may be sent before rank 0 begins to count.
on_its_transport() {
  awk -v contender="$1" -v others=$((world - 1)) -v tcp="$(uses_tcp "${1%% *}" && echo 1)" -v world="$world" '
    { line[NR] = $0; size[NR] = $2; least = others * (1.5 * $2 + 60); most = others * ($2 / 50 + 30) }
    $5 == "" || (tcp ? $5 < least : $5 > most) {
      if (!($2 in bad)) printf "%s: left out at %d bytes on %d ranks: a call sent %s bytes over loopback, and %s\n",
        contender, $2, world, $5 == "" ? "an unknown number of" : $5, tcp ? "TCP would send at least " least \
        : "memory would send none (run nothing else that uses this interface)" >"/dev/stderr"
      bad[$2]
    }
    END { for (i = 1; i <= NR; i++) if (!(size[i] in bad)) print line[i] }'
}

# try CONTENDER: runs it for a short time, and checks its results and its transport; prints what on_its_transport passes.
try() {
  run "$1" "$sizes" --budget_ms $((budget_ms / 2 + 1)) -c 1 "${loopback[@]}" >"$scratch/trial"
  sed -n 's/.*# {"library":"[^"]*","version":"\([^"]*\)".*/'"${1%% *}"' \1/p' "$scratch/out" >>"$scratch/versions"
  if ((${#loopback[@]} > 0)); then on_its_transport "$1"; else cat; fi <"$scratch/trial"
}

# Tries every contender. Prints "peer algorithm SIZES": the sizes at which the algorithm may be the fastest of its peer.
try_all() {
  local contender
  for contender in "${contenders[@]}"; do
    try "$contender" | sed "s/^/$contender /"
  done | awk -v all_sizes="$sizes" -v column=$((world > mean_above ? 6 : 5)) '
    { key = $3 " " $4 " " $1; time[$1 " " $2, $3, $4] = $column; named[$1 " " $2]; peer[$1 " " $2] = $1
      if (!(key in min) || $column < min[key]) min[key] = $column }
    function close_to_best(name, placement, size) {
      return time[name, placement, size] <= 1.5 * min[placement " " size " " peer[name]]
    }
    END {
      total = split(all_sizes, sizes, ",")
      for (name in named) {
        list = ""
        for (i = 1; i <= total; i++) {
          size = sizes[i]
          if (close_to_best(name, "in-place", size) || close_to_best(name, "out-of-place", size)) list = list "," size
        }
        if (list != "") print name, substr(list, 2)
      } }'
}

# measure ENTRANT FILE: makes a timed run of "peer algorithm SIZES", and measures the machine's state after the run.
measure() {
  run "${1% *}" "${1##* }" --budget_ms "$budget_ms" -c 0 >"$scratch/$2"
  state=$("$sentinel")
}

# note ENTRANT FILE STATES...: records the entrant's run and ours as a pair, with the machine's states before, between
# and after the two runs.
note() {
  local steady
  steady=$(printf '%s\n' "${@:3}" | sort -n | awk 'NR == 1 { min = $1 } END { print $1 <= 1.25 * min ? 1 : 0 }')
  printf '%s %s\n' "$steady" "${*:3}" >>"$scratch/states"
  awk -v head="$world" -v tail="${1% *} $steady" '
    NR == FNR { ours[$1, $2] = $3 " " $4; next }
    { print head, $1, $2, tail, ours[$1, $2], $3, $4 }' "$scratch/ours" "$scratch/$2" >>"$scratch/pairs"
}

# neighbours ENTRANT [ENTRANT]: measures one entrant before and one after a run of ours. Each makes a pair with our run.
neighbours() {
  local before=$state between after
  measure "$1" first
  between=$state
  measure "anello auto $sizes" ours
  after=$state
  note "$1" first "$before" "$between" "$after"
  (($# > 1)) || return 0
  measure "$2" second
  note "$2" second "$between" "$after" "$state"
}

# measure_world WANTED: makes a trial, then the rounds, with the peers of the list WANTED (empty: all). Every second
# round runs in reverse order, so that a contender that runs before ours in one round runs after ours in the next.
measure_world() {
  local round i entrants
  find_contenders "$1"
  ((${#contenders[@]} > 0)) || fail "no peer is here to compare with"
  # Between hosts, the links limit the rate, so the transport needs no check.
  loopback=()
  [[ $interface != lo ]] || loopback=(--loopback)
  try 'anello auto' >"$scratch/ours"
  (($(wc -l <"$scratch/ours") == 2 * $(wc -w <<<"${sizes//,/ }"))) || fail "anello does not use the transport $transport (see above)"
  say "$world ranks: trial of ${#contenders[@]} contenders"
  try_all >"$scratch/entrants"
  [[ -s $scratch/entrants ]] || fail "no peer uses the transport $transport on $world ranks (see above)"
  state=$("$sentinel")
  for ((round = 1; round <= rounds; round++)); do
    say "$world ranks: round $round of $rounds"
    if ((round % 2)); then mapfile -t entrants <"$scratch/entrants"
    else mapfile -t entrants < <(tac -- "$scratch/entrants"); fi
    for ((i = 0; i < ${#entrants[@]}; i += 2)); do neighbours "${entrants[@]:i:2}"; done
  done
}
