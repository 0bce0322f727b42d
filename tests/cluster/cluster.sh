#!/usr/bin/env bash
# A cluster of three hosts on this machine: h0, h1 and h2 with a network, IPv4 and IPv6, sshd, munge and a real Slurm. Brings
# it up, runs COMMAND beside it with CLUSTER=folder, and ends with its status. In that folder `on_host I COMMAND...` runs a
# command on host I, and `log` has the daemons' messages.
#
# Everything happens in namespaces of processes, mounts and networks that end with this script, however it ends. Its
# files are in memory that only these namespaces see; configuration is mounted over the machine's own there, and nowhere
# else.
# usage: cluster.sh PATH COMMAND...      PATH: folders that precede PATH on all hosts. 77: namespaces cannot be made, or
# Slurm does not find /sys/fs/cgroup.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/../../bench/programs.sh"
source "$bench_root/bench/hosts.sh"

if [[ ${CLUSTER-} != inside ]]; then
  ((EUID == 0)) && unshare --net --mount --pid --fork /bin/true 2>/dev/null && mountpoint -q /sys/fs/cgroup ||
    exit 77
  exec env -i CLUSTER=inside PATH="$1:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" LANG=C.UTF-8 \
    unshare --net --mount --pid --fork --mount-proc --kill-child bash "$0" "$@"
fi
IFS=: read -ra folders <<<"$1"
shift
for tool in munged munge slurmctld slurmd srun sbatch salloc scancel sshd ssh ssh-keygen mpirun.openmpi mpiexec.mpich \
  sge_qmaster sge_execd qsub qrsh torchrun setpriv ss ip tc; do
  [[ -x $(command -v "$tool") ]] || fail "'$tool' is missing (see test_packages in .ci/prepare.sh)"
done
mount -t tmpfs tmpfs /run
scratch=/run/cluster
mkdir -p "$scratch"/{home/.ssh,log,state,tmp} /run/{sshd,munge}
hosts=(0 1 2)

# comes_up WHAT COMMAND...: tries COMMAND for a minute.
comes_up() {
  local what=$1 end=$((SECONDS + 60))
  shift
  while ((SECONDS < end)); do
    ! "$@" >/dev/null 2>&1 || return 0
    sleep 0.02
  done
  tail -n 20 "$scratch"/log/* >&2
  fail "$what did not come up"
}

# Mounts the programs in a folder that all users can read.
make_programs() {
  local i
  for i in "${!folders[@]}"; do
    mkdir -p "$scratch/bin/$i"
    mount --bind "${folders[i]}" "$scratch/bin/$i"
    PATH=${PATH/"${folders[i]}"/"$scratch/bin/$i"}
  done
}

make_network() {
  local i
  make_hosts "${#hosts[@]}" 1000 reno
  for i in "${hosts[@]}"; do
    ip -n "h$i" addr add "fd00:77::$((i + 1))/64" dev eth0 nodad
    echo "fd00:77::$((i + 1)) h$i-ipv6" >>"$scratch/hosts"
  done
  echo "127.0.0.1 localhost" >>"$scratch/hosts"
}

# All hosts use root's home, as is usual. `guest` is another user.
make_users() {
  sed -E "s|^(root:[^:]*:0:0:[^:]*):[^:]*|\\1:$scratch/home|" /etc/passwd >"$scratch/passwd"
  echo "guest:x:5077:5077:guest:$scratch/tmp:/bin/sh" >>"$scratch/passwd"
  mount --bind "$scratch/passwd" /etc/passwd
  export HOME=$scratch/home USER=root
}

make_keys() {
  ssh-keygen -q -t ed25519 -N '' -f "$scratch/host_key"
  ssh-keygen -q -t ed25519 -N '' -f "$HOME/.ssh/id_ed25519"
  install -m600 "$HOME/.ssh/id_ed25519.pub" "$HOME/.ssh/authorized_keys"
  sed "s/^/h0,h1,h2,10.77.0.*,fd00:77::* /" "$scratch/host_key.pub" >"$HOME/.ssh/known_hosts"
  cat >"$scratch/sshd_config" <<TEXT
HostKey $scratch/host_key
PidFile none
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
SetEnv ANELLO_REPRODUCIBLE=1
TEXT
}

# A host consists of the namespaces of its sshd.
start_hosts() {
  local i
  for i in "${hosts[@]}"; do
    nsenter --net="/run/netns/h$i" unshare --uts --mount sh -c 'hostname "$0" && mount -t tmpfs tmpfs /dev/shm &&
      mount -t tmpfs tmpfs "$1/tmp" && chmod 1777 "$1/tmp" /dev/shm && exec /usr/sbin/sshd -D -e -f "$1/sshd_config"' \
      "h$i" "$scratch" 2>"$scratch/log/sshd-h$i" &
    echo "$!" >"$scratch/h$i.pid"
  done
  cat >"$scratch/on_host" <<TEXT
#!/bin/sh
pid=\$(cat "$scratch/h\$1.pid") && shift
exec nsenter --target "\$pid" --net --uts --mount --root --wd="$scratch/home" -- "\$@"
TEXT
  chmod +x "$scratch/on_host"
  for i in "${hosts[@]}"; do
    comes_up "h$i" "$scratch/on_host" "$i" sh -c '[ "$(hostname)" = "$0" ] && mountpoint -q "$1/tmp"' "h$i" "$scratch"
  done
}

start_munge() {
  (umask 077 && head -c 1024 /dev/urandom >"$scratch/munge.key")
  munged --foreground --key-file="$scratch/munge.key" --pid-file="$scratch/munged.pid" --log-file="$scratch/log/munged" \
    --seed-file="$scratch/munge.seed" 2>"$scratch/log/munged.start" &
  comes_up munge munge -n
}

configure_slurm() {
  mount -t tmpfs tmpfs /etc/slurm
  echo "PMIxCliTmpDirBase=$scratch/tmp" >/etc/slurm/mpi.conf  # each host has its own
  cat >/etc/slurm/slurm.conf <<TEXT
ClusterName=test
SlurmctldHost=h0
SlurmUser=root
SlurmdUser=root
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_min_interval=0
ReturnToService=2
SlurmdTimeout=10
KillWait=2
SlurmdParameters=config_overrides
StateSaveLocation=$scratch/state
SlurmdSpoolDir=$scratch/spool-%n
SlurmctldPidFile=$scratch/slurmctld.pid
SlurmdPidFile=$scratch/slurmd-%n.pid
NodeName=h[0-2] CPUs=4 State=UNKNOWN
PartitionName=test Nodes=ALL Default=YES MaxTime=10 State=UP OverSubscribe=YES
TEXT
}

start_slurm() {
  local i
  "$scratch/on_host" 0 slurmctld -D -i 2>"$scratch/log/slurmctld" &
  for i in "${hosts[@]}"; do
    mkdir -p "$scratch/spool-h$i"
    "$scratch/on_host" "$i" slurmd -D 2>"$scratch/log/slurmd-h$i" &
  done
  comes_up Slurm "$scratch/on_host" 0 sh -c '[ "$(sinfo -h -t idle -o %D)" = 3 ]'
}

make_programs
make_network
make_users
make_keys
start_munge
configure_slurm
start_hosts
start_slurm
CLUSTER=$scratch "$@"
