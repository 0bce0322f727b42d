# The measurement itself, after peers.sh: of the world $world, over the list $sizes in bytes, in $rounds rounds, calls for
# $budget_ms, with $sentinel. Appends to the files pairs (what summary.sh reads) and states of the folder $scratch.
# shellcheck shell=bash disable=SC2154

say() { printf '%s\n' "$*" >&2; }

# run CONTENDER SIZES FLAGS...: one program run over a list of sizes in bytes; prints lines "placement size p50 mean",
# microseconds.
run() {
  local contender=$1 list=$2 command
  shift 2
  place_ranks
  "${contender%% *}_command" "${contender#* }"
  timeout 300 "${command[@]}" -s "$list" "$@" >"$scratch/out" 2>&1 </dev/null || {
    tail -n 20 -- "$scratch/out" >&2
    fail "$contender failed on $world ranks (see above)"
  }
  sed 's/^\[[^]]*\] *//' "$scratch/out" | awk -v list="$list" '
    /^ *[0-9]/ && NF == 16 { print "in-place", $1, $11, $16; print "out-of-place", $1, $5, $10; found++ }
    END { exit found != split(list, sizes, ",") }' || fail "$contender did not print figures of $list bytes on $world ranks"
}

# A short run of every contender, its results checked; prints "peer algorithm SIZES": where it may be its peer's best.
try_all() {
  local contender
  for contender in "${contenders[@]}"; do
    run "$contender" "$sizes" --budget_ms $((budget_ms / 2 + 1)) -c 1 >"$scratch/trial"
    sed "s/^/$contender /" "$scratch/trial"
  done | awk -v all_sizes="$sizes" -v column=$((world > mean_above ? 6 : 5)) '
    { key = $3 " " $4 " " $1; time[$1 " " $2, $3, $4] = $column; named[$1 " " $2]; peer[$1 " " $2] = $1
      if (!(key in least) || $column < least[key]) least[key] = $column }
    function close_to_best(name, placement, size) {
      return time[name, placement, size] <= 1.5 * least[placement " " size " " peer[name]]
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

# pair CONTENDER SIZES TURN: it and we, one after the other, who begins by turn, with the machine's state before, between
# and after. Appends to the pairs.
pair() {
  local contender=$1 who states=("$state") steady
  local order=("$contender" anello)
  ((${3} % 2)) || order=(anello "$contender")
  for who in "${order[@]}"; do
    run "$who" "$2" --budget_ms "$budget_ms" -c 0 >"$scratch/${who%% *}"
    state=$("$sentinel")
    states+=("$state")
  done
  steady=$(printf '%s\n' "${states[@]}" | sort -n | awk 'NR == 1 { least = $1 } END { print $1 <= 1.25 * least ? 1 : 0 }')
  printf '%s %s\n' "$steady" "${states[*]}" >>"$scratch/states"
  paste -d' ' -- "$scratch/anello" "$scratch/${contender%% *}" |
    awk -v head="$world" -v tail="$contender $steady" '{ print head, $1, $2, tail, $3, $4, $7, $8 }' >>"$scratch/pairs"
}

# measure_world WANTED: a trial, then the rounds, with the peers of the list WANTED (empty: all).
measure_world() {
  local round peer algorithm list
  find_contenders "$1"
  ((${#contenders[@]} > 0)) || fail "no peer is here to compare with"
  say "$world ranks: trial of ${#contenders[@]} contenders"
  try_all >"$scratch/entrants"
  state=$("$sentinel")
  for ((round = 1; round <= rounds; round++)); do
    say "$world ranks: round $round of $rounds"
    while read -r peer algorithm list <&3; do pair "$peer $algorithm" "$list" "$round"; done 3<"$scratch/entrants"
  done
}
