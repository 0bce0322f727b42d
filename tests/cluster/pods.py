"""Runs the pods of trainer/recipes/kubernetes.yaml in namespaces beside the hosts of cluster.sh. Usage, as root there:
  nsenter --net=/run/netns/switch pods.py MANIFEST [ARGUMENT...]      ARGUMENTs are appended to the container's command

Each pod has what a container has: its own network with an address, host name, processes, /dev/shm, /etc/hosts and
resolv.conf, a secret as kubelet mounts it (links, the group fsGroup, mode 0440), an unprivileged user, and only the
variables that the manifest and Kubernetes give it. This file has stand-ins for the controllers (only for the names,
labels and variables that they give), for kubelet, for the image (this machine's file system), and for the cluster's
name server, which answers for the pods from two seconds after the first question. Nothing stands in for admission,
scheduling, limits and restarts."""

import os
import socket
import subprocess
import sys
import threading
import time

import manifest

DOMAIN = "default.svc.cluster.local"
NAME_SERVER = "10.77.0.53"
NAMES_KNOWN_AFTER = 2.0  # seconds from the first question: pods may take long to start on a busy machine
INDEX = "batch.kubernetes.io/job-completion-index"
USER = 5077  # the container's user


def variables(container, index):
    out = {"JOB_COMPLETION_INDEX": str(index), "KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    for one in container.env:
        if one.value_from:
            manifest.require(one.value_from.field_ref.field_path == f"metadata.annotations['{INDEX}']", f"{one.name}: unknown path")
        out[one.name] = str(index) if one.value_from else one.value or ""
    return out


class NameServer:
    """Answers for `addresses` {name: IPv4} from a while after the first question; until then, answers that the names do
    not exist."""

    def __init__(self, addresses):
        self.addresses = addresses
        self.begin = None  # time of the first question for a pod
        self.refused = 0
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((NAME_SERVER, 53))
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            query, client = self.socket.recvfrom(512)
            self.socket.sendto(self.answer(query), client)

    def answer(self, query):
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode().lower())
            at += 1 + query[at]
        question = query[12:at + 5]
        address = self.addresses.get(".".join(labels))
        if address and self.begin is None:
            self.begin = time.monotonic()
        if address and time.monotonic() - self.begin < NAMES_KNOWN_AFTER:
            address, self.refused = None, self.refused + 1
        answers = [socket.inet_aton(address)] if address and query[at + 2] == 1 else []  # type A
        header = query[:2] + bytes((0x85, 0x80 if address else 0x83, 0, 1, 0, len(answers), 0, 0, 0, 0))
        return header + question + b"".join(b"\xc0\x0c\0\1\0\1\0\0\0\5\0\4" + answer for answer in answers)


CONTAINER = """set -e
hostname "$POD" && mount -t tmpfs tmpfs /dev/shm && chmod 1777 /dev/shm
mkdir -p "$POD_FILES/upper" "$POD_FILES/work"
mount -t overlay overlay -o "lowerdir=/etc,upperdir=$POD_FILES/upper,workdir=$POD_FILES/work" /etc
printf '127.0.0.1 localhost\\n%s %s.%s %s\\n' "$POD_ADDRESS" "$POD" "$POD_DOMAIN" "$POD" >/etc/hosts
printf 'nameserver %s\\nsearch %s svc.cluster.local cluster.local\\noptions ndots:5\\n' "$1" "$2" >/etc/resolv.conf
mkdir -p "$3/..1" && ln -s ..1 "$3/..data" && ln -s ..data/secret "$3/secret"
cp "$POD_FILES/../secret" "$3/..1/secret" && chgrp "$4" "$3/..1/secret" && chmod 0440 "$3/..1/secret"
user=$5
cd / && shift 5
exec env -u POD -u POD_FILES -u POD_ADDRESS -u POD_DOMAIN setpriv --reuid "$user" --regid "$user" --groups "$GROUP" "$@"
"""


def start_pod(job, service, index, folder, arguments):
    pod = job.spec.template.spec
    container = pod.containers[0]
    name, address = f"{job.metadata.name}-{index}", address_of(index)
    for command in (f"netns add {name}", f"link add eth0 netns {name} type veth peer name pod{index} netns switch",
                    f"-n {name} addr add {address}/24 dev eth0", f"-n {name} link set lo up",
                    f"-n {name} link set eth0 up", f"-n switch link set pod{index} master bridge up"):
        subprocess.run(["ip", *command.split()], check=True)
    group = str(pod.security_context.fs_group)
    environment = {"PATH": os.environ["PATH"], "ANELLO_REPRODUCIBLE": "1", **variables(container, index), "POD": name,
                   "POD_FILES": f"{folder}/{index}", "POD_ADDRESS": address, "GROUP": group,
                   "POD_DOMAIN": f"{service.metadata.name}.{DOMAIN}"}
    return subprocess.Popen(
        ["nsenter", f"--net=/run/netns/{name}", "unshare", "--uts", "--ipc", "--mount", "--pid", "--fork", "--mount-proc",
         "--kill-child", "sh", "-c", CONTAINER, "sh", NAME_SERVER, DOMAIN, container.volume_mounts[0].mount_path, group,
         str(USER), *container.command, *(container.args or []), *arguments], env=environment)


def address_of(index):
    return f"10.77.0.{100 + index}"


def main():
    job, service = manifest.read(sys.argv[1])
    folder = f"{os.environ['CLUSTER']}/pods"
    os.makedirs(folder)
    subprocess.run(["anello", "secret", f"{folder}/secret"], check=True, stdout=subprocess.DEVNULL)
    # A bridge without an address takes the address of a port, and changes it with each pod.
    for command in (f"addr add {NAME_SERVER}/24 dev bridge", "link set bridge address 02:00:00:00:00:53"):
        subprocess.run(["ip", "-n", "switch", *command.split()], check=True)
    indices = range(job.spec.completions)
    domain = f"{service.metadata.name}.{DOMAIN}"
    names = NameServer({f"{job.metadata.name}-{index}.{domain}": address_of(index) for index in indices})
    pods = [start_pod(job, service, index, folder, sys.argv[2:]) for index in reversed(indices)]
    status = max(pod.wait() for pod in pods)
    print(f"queries for pods before their names were known: {names.refused}")
    return status


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    try:
        sys.exit(main())
    except manifest.ManifestError as error:
        sys.exit(f"pods.py: {error}")
