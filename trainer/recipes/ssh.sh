#!/bin/bash
# Without a launcher: one ssh for each rank, with the variables of torchrun. HOSTS=node1,node2 bash ssh.sh [options of
# anello-train]. Before the first time, run `anello secret` (in a home that all hosts share; otherwise copy the file to
# each host).
IFS=, read -ra hosts <<<"${HOSTS:-h0,h1,h2}"
per_host=2
size=$((per_host * ${#hosts[@]}))
printf -v command '%q ' "$(command -v anello-train)" "$@"  # the full path, because ssh gives other hosts another PATH
ranks=() status=0
for ((rank = 0; rank < size; rank++)); do
  # shellcheck disable=SC2029
  ssh "${hosts[rank / per_host]}" "RANK=$rank WORLD_SIZE=$size LOCAL_RANK=$((rank % per_host)) \
    LOCAL_WORLD_SIZE=$per_host MASTER_ADDR=${hosts[0]} MASTER_PORT=${MASTER_PORT:-29500} $command" &
  ranks+=($!)
done
for rank in "${ranks[@]}"; do wait "$rank" || status=$?; done
exit "$status"
