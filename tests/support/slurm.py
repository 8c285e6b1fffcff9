"""A SLURM cluster that is this machine alone, for tests and trials.

    python tests/support/slurm.py snakemake --profile slurm

starts the daemons of Debian's packages ``slurm-wlm`` and ``munge`` in a temporary folder, runs the
command with them, and stops them. Nothing outside that folder is written, and a SLURM that is
installed on the machine is not touched. The node has this machine's cores and a GPU that is none
(a GPU's job gets CUDA_VISIBLE_DEVICES, and finds no device); memory is declared, not measured.
"""

import contextlib
import getpass
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol")
STARTING_S = 120.0

CONFIGURATION = """\
ClusterName=one_node
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld_port}
SlurmdPort={slurmd_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
# A job whose node went down may start again when its credential has expired.
AuthInfo=socket={folder}/munge.socket,cred_expire=20
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
MpiDefault=none
SwitchType=switch/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
# Jobs start and end at once, and are remembered for an hour.
SchedulerParameters=sched_min_interval=100000,sched_interval=1,batch_sched_delay=0,bf_interval=1
MinJobAge=3600
KillWait=2
CompleteWait=0
InactiveLimit=0
SlurmctldTimeout=120
SlurmdTimeout=10
# No accounting, as on many small clusters. Memory is watched, and a job above its own is killed.
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
JobAcctGatherParams=OverMemoryKill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory_mb} Gres=gpu:1 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Unavailable(RuntimeError):
    """The cluster cannot be started here; the message is one line that says why."""


class Job(NamedTuple):
    """A job as SLURM remembers it; ``rule`` is Snakemake's comment: the rule and its wildcards."""

    number: str
    state: str
    gres: str
    start: str
    end: str
    rule: str


@dataclass
class Cluster:
    """A running cluster.

    Attributes
    ----------
    folder : path
        Everything the daemons write.
    environment : dict
        What a process needs to talk to this cluster.
    """

    folder: Path
    environment: dict[str, str]
    _daemons: dict[str, subprocess.Popen] = field(default_factory=dict)

    def run(self, *command: str) -> str:
        """Standard output of a command, such as ``squeue``, that talks to this cluster."""
        end = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=60, check=False
        )
        if end.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {end.stderr.strip()}")
        return end.stdout

    def jobs(self) -> list[Job]:
        """The jobs of the last hour, in the order of their submission."""
        found = []
        for line in self.run("scontrol", "show", "jobs", "--oneliner").splitlines():
            values = dict(re.findall(r"(\w+)=(\S*)", line))
            if "JobId" in values:
                keys = ("JobId", "JobState", "TresPerJob", "StartTime", "EndTime", "Comment")
                found.append(Job(*(values.get(key, "") for key in keys)))
        return sorted(found, key=lambda job: int(job.number))

    def start_node(self) -> None:
        """Start the node's daemon and wait until jobs can run there."""
        self._start("slurmd", "-D")
        self._wait("slurmd", lambda: self.state() in ("idle", "mixed", "allocated"))

    def kill_node(self) -> None:
        """The node and all that runs on it stop, as at a power failure."""
        daemon = self._daemons.pop("slurmd")
        for pid in [*descendants(daemon.pid), *self._steps(), daemon.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)
        daemon.wait()

    def start(self) -> None:
        """Start all daemons."""
        socket_path = self.folder / "munge.socket"
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        self._start(
            "munged",
            "--foreground",
            "--force",
            f"--key-file={key}",
            f"--socket={socket_path}",
            *(f"--{name}-file={self.folder}/munge.{name}" for name in ("pid", "log", "seed")),
        )
        self._wait("munged", socket_path.exists)
        self._start("slurmctld", "-D", "-i")
        self._wait("slurmctld", lambda: bool(self.state()))
        self.start_node()

    def stop(self) -> None:
        """Stop all daemons and what is left of the jobs."""
        with contextlib.suppress(RuntimeError, subprocess.TimeoutExpired):
            self.run("scancel", "--user", getpass.getuser())
        if "slurmd" in self._daemons:
            self.kill_node()
        for name in reversed(self._daemons):
            self._daemons[name].terminate()
        for daemon in self._daemons.values():
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def state(self) -> str:
        """The node's state, such as ``idle`` or ``down*``; empty while nobody answers."""
        with contextlib.suppress(RuntimeError):
            return self.run("sinfo", "--noheader", "--format=%T").strip()
        return ""

    def _steps(self) -> list[int]:
        """The daemons of this cluster's job steps, and what they run: they have left slurmd."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                name = entry.joinpath("cmdline").read_bytes()
                variables = entry.joinpath("environ").read_bytes()
                if b"slurmstepd" in name and str(self.folder).encode() in variables:
                    found += [*descendants(int(entry.name)), int(entry.name)]
        return found

    def _start(self, name: str, *options: str) -> None:
        with open(self.folder / f"{name}.out", "ab") as output:
            self._daemons[name] = subprocess.Popen(
                [_program(name), *options],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _wait(self, name: str, ready) -> None:
        deadline = time.monotonic() + STARTING_S
        while not ready():
            ended = self._daemons[name].poll() is not None
            if ended or time.monotonic() > deadline:
                lines = (self.folder / f"{name}.out").read_text(errors="replace").splitlines()
                said = lines[-1] if lines else "nothing printed"
                how = "ended" if ended else f"was not ready within {STARTING_S:g} s"
                raise Unavailable(f"{name} {how}: {said}")
            time.sleep(0.1)


def descendants(pid: int) -> list[int]:
    """Processes that a process started, directly or not."""
    found, pending = [], [pid]
    while pending:
        current = pending.pop()
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{current}/task"):
                children = Path(f"/proc/{current}/task/{task}/children").read_text().split()
                pending += map(int, children)
                found += map(int, children)
    return found


@contextlib.contextmanager
def one_node_cluster(*, cpus: int | None = None, memory_mb: int = 64_000) -> Iterator[Cluster]:
    """A cluster of this machine alone, for the time of the block.

    Parameters
    ----------
    cpus : int, optional
        Cores of the node; those of this machine by default.
    memory_mb : int
        Memory of the node in 2^20 bytes, taken at its word.

    Raises
    ------
    Unavailable
        If a program is missing or a daemon does not start.
    """
    missing = [name for name in PROGRAMS if _program(name) is None]
    if missing:
        raise Unavailable(
            f"not installed: {', '.join(missing)} (on Debian: apt-get install slurm-wlm munge)"
        )
    with tempfile.TemporaryDirectory(prefix="slurm-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        for part in ("state", "spool"):
            (folder / part).mkdir()
        ports = _free_ports(2)
        (folder / "slurm.conf").write_text(
            CONFIGURATION.format(
                folder=folder,
                host=socket.gethostname().partition(".")[0],
                user=getpass.getuser(),
                ctld_port=ports[0],
                slurmd_port=ports[1],
                cpus=cpus or os.cpu_count(),
                memory_mb=memory_mb,
            )
        )
        # The device file is only counted.
        (folder / "gres.conf").write_text("Name=gpu File=/dev/null\n")
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("SLURM_", "SBATCH_", "SRUN_", "SNAKEMAKE_"))
        }
        environment["SLURM_CONF"] = str(folder / "slurm.conf")
        # Snakemake's jobs call srun without the variables SLURM_*, so without SLURM_CONF.
        wrapper = folder / "bin/srun"
        wrapper.parent.mkdir()
        wrapper.write_text(
            f'#!/bin/sh\nSLURM_CONF={folder}/slurm.conf exec {_program("srun")} "$@"\n'
        )
        wrapper.chmod(0o755)
        environment["PATH"] = os.pathsep.join([str(wrapper.parent), *os.get_exec_path()])
        cluster = Cluster(folder, environment)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()


def _program(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin:/sbin")


def _free_ports(n: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def main() -> int:
    """Run the command of the command line in a cluster."""
    if len(sys.argv) < 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    try:
        with one_node_cluster() as cluster:
            return subprocess.call(sys.argv[1:], env=cluster.environment)
    except Unavailable as error:
        print(f"slurm.py: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
