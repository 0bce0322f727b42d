#!/bin/bash
# Hosts that you reach by ssh without a password: HOSTS=node1,node2 bash anello_run.sh [options of anello-train]
# Starts two ranks on each host. The secret and the settings travel through ssh; nothing has to be prepared.
IFS=, read -ra hosts <<<"${HOSTS:-h0,h1,h2}"
printf -v list '%s:2,' "${hosts[@]}"
exec anello run -H "${list%,}" -n $((2 * ${#hosts[@]})) -- anello-train "$@"
