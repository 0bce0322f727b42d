#!/bin/bash
# torchrun, once on each host: NODE_RANK=0 MASTER_ADDR=node1 bash torchrun.sh [options of anello-train]
# Before the first time, run `anello secret` (in a home that all hosts share; otherwise copy the file to each host).
exec torchrun --nnodes=3 --nproc_per_node=2 --node_rank="${NODE_RANK:?is the number of this host, from 0}" \
  --master_addr="${MASTER_ADDR:?is the first host}" --master_port="${MASTER_PORT:-29500}" --no_python anello-train "$@"
