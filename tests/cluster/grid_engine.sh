#!/usr/bin/env bash
# Starts Grid Engine on the hosts of cluster.sh, beside Slurm: a queue of 4 slots a host and the parallel environment `mpi`
# with two ranks a host. Its files are in memory, like the other files of cluster.sh. The machine's own files of Grid
# Engine are only copied, without the machine's own cluster.
# usage: CLUSTER=folder grid_engine.sh
set -euo pipefail
on_host=$CLUSTER/on_host
export SGE_ROOT=/var/lib/gridengine SGE_CELL=default SGE_QMASTER_PORT=6444 SGE_EXECD_PORT=6445

cp -a /var/lib/gridengine "$CLUSTER/gridengine"
cp -a /var/spool/gridengine "$CLUSTER/gridengine-spool"
rm -f -- "$CLUSTER"/gridengine-spool/spooldb/*
echo h0 >"$CLUSTER/gridengine/default/common/act_qmaster"
chown sgeadmin: "$CLUSTER/gridengine/default/common/act_qmaster"  # the master writes it
for i in 0 1 2; do
  "$on_host" "$i" mount --bind "$CLUSTER/gridengine" /var/lib/gridengine
  "$on_host" "$i" mount --bind "$CLUSTER/gridengine-spool" /var/spool/gridengine
done
initialise="/usr/share/gridengine/scripts/init_cluster $SGE_ROOT $SGE_CELL /var/spool/gridengine/spooldb sgeadmin"
"$on_host" 0 su -s /bin/sh -c "$initialise" sgeadmin >"$CLUSTER/log/init_cluster" 2>&1 ||
  { cat "$CLUSTER/log/init_cluster" >&2 && exit 1; }
cat >"$CLUSTER/home/.gridengine" <<TEXT
export SGE_ROOT=$SGE_ROOT SGE_CELL=$SGE_CELL SGE_QMASTER_PORT=$SGE_QMASTER_PORT SGE_EXECD_PORT=$SGE_EXECD_PORT
TEXT

# configure SHOW CHANGE EDIT...: gives the output of `qconf SHOW`, with some lines replaced, to `qconf CHANGE`.
configure() {
  local show change=$2 file=$CLUSTER/home/${3} name_value
  read -ra show <<<"$1"
  shift 3
  "$on_host" 0 qconf "${show[@]}" >"$file" 2>/dev/null || : >"$file"
  for name_value; do
    sed -i "/^${name_value%% *} /d" "$file"
    echo "$name_value" >>"$file"
  done
  "$on_host" 0 qconf "$change" "$file" >/dev/null
}

# daemon HOST PROGRAM: starts the program without this script's environment, because otherwise a test would take the
# program for a part of its job.
daemon() {
  env -i PATH="$PATH" SGE_ROOT="$SGE_ROOT" SGE_CELL="$SGE_CELL" SGE_QMASTER_PORT="$SGE_QMASTER_PORT" \
    SGE_EXECD_PORT="$SGE_EXECD_PORT" SGE_ND=1 "$on_host" "$1" "$2" >"$CLUSTER/log/$2-h$1" 2>&1 </dev/null &
}

daemon 0 sge_qmaster
until "$on_host" 0 qconf -sh >/dev/null 2>&1; do
  kill -0 $! 2>/dev/null || { cat "$CLUSTER/log/sge_qmaster-h0" >&2 && exit 1; }
  sleep 0.1
done
configure '-sconf global' -Mconf global 'min_uid 0' 'min_gid 0'
configure -ssconf -Msconf scheduler 'schedule_interval 0:0:1' 'flush_submit_sec 1' 'flush_finish_sec 1'
for host in h0 h1 h2; do
  "$on_host" 0 qconf -ah "$host" >/dev/null 2>&1 || true  # the master's host is one already
  "$on_host" 0 qconf -as "$host" >/dev/null
done
configure '-sp mpi' -Ap mpi 'pe_name mpi' 'slots 99' 'user_lists NONE' 'xuser_lists NONE' 'start_proc_args /bin/true' \
  'stop_proc_args /bin/true' 'allocation_rule 2' 'control_slaves TRUE' 'job_is_first_task FALSE' 'urgency_slots min' \
  'accounting_summary FALSE' 'qsort_args NONE'
configure -sq -Aq all.q 'qname all.q' 'hostlist h0 h1 h2' 'pe_list mpi' 'slots 4' 'load_thresholds NONE' \
  'shell /bin/bash' 'shell_start_mode unix_behavior' "tmpdir $CLUSTER/tmp"
for i in 0 1 2; do daemon "$i" sge_execd; done
until [[ $("$on_host" 0 qhost | grep -c '^h[0-2] .*lx-') == 3 ]]; do sleep 0.1; done
