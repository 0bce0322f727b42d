#!/bin/sh
# Acts like srun for one task on each host of --nodelist, with standard input for all tasks. The tasks have
# SLURMD_NODENAME, and this process's environment. Exits with the highest status.
for word; do
  case $word in
    --nodelist=*) list=${word#*=} ;;
    --*) ;;
    *) break ;;
  esac
  shift
done
task=$(mktemp) || exit 1
cat >"$task"
pids=
for host in $(printf %s "$list" | tr , ' '); do
  SLURMD_NODENAME=$host FAKE_HOST=$host setsid "$@" <"$task" &
  pids="$pids $!"
done
status=0
for pid in $pids; do
  wait "$pid" || status=$?
done
rm -f "$task"
exit $status
