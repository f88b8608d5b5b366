"""The Ray engine: jobs as tasks of a cluster; results and snapshots return to the driver, so no disk is shared."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from creditscope.errors import CreditscopeError, InvalidInput, OutOfResources
from creditscope.machine import alive
from creditscope.records.folder import RECORD, WEIGHTS, replace_snapshot
from creditscope.study.engines.engine import Engine, EpochDone, Event, RunEnded
from creditscope.study.engines.job import Job, RunError, RunResult, attempt
from creditscope.study.engines.mailbox import Mailbox
from creditscope.terminal import one_line

if TYPE_CHECKING:
    from creditscope.records.run import HistoryRow

RETRIES = 3  # how often Ray restarts a run whose node was lost
POST = 1.0  # seconds between two checks for a new snapshot to send
COLLECT = 0.1  # seconds between two visits to the mailbox
ROOM = 1.0  # seconds for which the size of the cluster is taken as known
PATIENCE = 5.0  # seconds that a cancelled task has to remove its folder
Execute = Callable[[Job, Callable[["HistoryRow"], None]], RunResult]
FOLDER = "creditscope-run-"  # temporary folders of tasks, followed by the number of their process


class NoCluster(CreditscopeError):
    """Ray is not installed, or no cluster answers at the address."""


class ClusterLost(OutOfResources):
    """The cluster ended, or it ended the actor that carries epochs and snapshots."""


class RayEngine(Engine):
    """Tasks on a Ray cluster, each with its CPUs and GPUs; one whose node is lost resumes from its last snapshot."""

    local = False

    def __init__(
        self,
        address: str = "auto",
        *,
        cpus: float = 1.0,
        gpus: float = 0.0,
        most: int | None = None,
        execute: Execute = attempt,
    ) -> None:
        self._ray = _connected(address)
        self._needs = {"CPU": cpus, "GPU": gpus}
        self._most = most
        self._under_way: dict[Any, Job] = {}
        self._ended: list[str] = []  # keys of runs that the mailbox can forget
        self._rooms, self._counted, self._collected = 0, -ROOM, 0.0
        self._execute = self._ray.put(execute)
        self._mailbox = self._pinned(Mailbox).remote()
        self._task = self._ray.remote(_run).options(
            num_cpus=cpus, num_gpus=gpus, max_retries=RETRIES, retry_exceptions=False
        )
        if not self._room():
            available = f"{self._resource('CPU'):g} and {self._resource('GPU'):g}"
            self.stop()
            raise InvalidInput(
                f"No run fits into the cluster: one needs {cpus:g} CPUs and {gpus:g} GPUs, it has {available}.\n"
                "Nothing would ever start. Lower --cpus or --gpus."
            )

    def _pinned(self, kind: type) -> Any:
        """An actor on the driver's own node, so that it lives as long as the driver."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = self._ray.get_runtime_context().get_node_id()
        return self._ray.remote(kind).options(
            num_cpus=0,
            max_restarts=-1,  # a restarted one has lost its snapshots: a run whose node goes then starts again
            max_task_retries=-1,
            scheduling_strategy=NodeAffinitySchedulingStrategy(here, soft=False),
        )

    @contextmanager
    def _on_the_cluster(self) -> Iterator[None]:
        try:
            yield
        except self._ray.exceptions.RayError as error:
            raise ClusterLost(
                f"The Ray cluster stopped answering: {one_line(str(error), 200)}\n"
                "Finished runs and snapshots are kept. Run the same command again once the cluster is up."
            ) from error

    def _resource(self, resource: str) -> float:
        return float(self._ray.cluster_resources().get(resource, 0.0))

    def _room(self) -> int:
        """How many runs fit into the cluster, as of a second ago at most."""
        if time.monotonic() - self._counted > ROOM:
            rooms = [int(self._resource(name) // need) for name, need in self._needs.items() if need]
            self._rooms, self._counted = min(rooms, default=1), time.monotonic()
        return self._rooms

    @property
    def workers(self) -> int:
        """As many as fit into the cluster, at most the number asked for; at least one while nodes come and go."""
        return max(1, min(self._room(), self._most or self._room()))

    @property
    def free(self) -> int:
        """How many more runs fit."""
        return self.workers - len(self._under_way)

    def start(self, job: Job) -> None:
        """Send the job with its snapshot or its checkpoint, if there is one."""
        if job.snapshot is not None and job.snapshot.exists():
            with self._on_the_cluster():
                self._ray.get(self._mailbox.keep.remote(job.key, job.snapshot.read_bytes()))
        trained = None
        if job.trained is not None:
            trained = {name: (job.trained / name).read_bytes() for name in (WEIGHTS, RECORD)}
        if job.key in self._ended:
            self._ended.remove(job.key)
        bare = replace(job, snapshot=None, trained=None)
        reference = self._task.remote(bare, trained, self._mailbox, self._execute)
        self._under_way[reference] = job

    def events(self, seconds: float) -> list[Event]:
        """Epochs and snapshots from the mailbox, and the tasks that have ended."""
        if not self._under_way:
            return []
        under_way = list(self._under_way)
        with self._on_the_cluster():
            ended, _ = self._ray.wait(under_way, num_returns=1, timeout=seconds)
            if ended:  # and whatever else has ended by now
                ended, _ = self._ray.wait(under_way, num_returns=len(under_way), timeout=0)
        return [*self._progress(), *map(self._end, ended)]

    def _progress(self) -> list[Event]:
        """The epochs since the last visit to the mailbox; snapshots are written."""
        if time.monotonic() - self._collected < COLLECT:
            return []
        jobs = {job.key: job for job in self._under_way.values()}
        with self._on_the_cluster():
            epochs, snapshots = self._ray.get(self._mailbox.collect.remote(self._ended))
        self._ended, self._collected = [], time.monotonic()
        for key, content in snapshots.items():
            path = jobs[key].snapshot if key in jobs else None
            if path is not None:
                replace_snapshot(path, content)
        return [EpochDone(key, done) for key, done in epochs.items() if key in jobs]

    def _end(self, reference: Any) -> RunEnded:
        job = self._under_way.pop(reference)
        try:
            result = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            with self._on_the_cluster():  # a run that fails for want of the mailbox is not to blame
                self._ray.get(self._mailbox.latest.remote(job.key))
            kind = type(error).__name__
            result = RunResult(error=RunError(f"{kind}: the run was lost {RETRIES + 1} times", str(error)))
        self._ended.append(job.key)
        return RunEnded(job.key, result)

    def stop(self) -> None:
        """Cancel all tasks and disconnect."""
        if not self._ray.is_initialized():
            return
        under_way = list(self._under_way)
        with suppress(self._ray.exceptions.RayError):
            for reference in under_way:
                self._ray.cancel(reference)
            if under_way:  # an interrupted task removes its folder, a killed one cannot
                _, late = self._ray.wait(under_way, num_returns=len(under_way), timeout=PATIENCE)
                for reference in late:
                    self._ray.cancel(reference, force=True)
            self._ray.kill(self._mailbox)
        self._under_way = {}
        self._ray.shutdown()


def _run(job: Job, trained: dict[str, bytes] | None, mailbox: Any, execute: Execute) -> RunResult:
    """Execute a job on a node, in a temporary folder, from the latest snapshot of the driver."""
    import ray

    sweep(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=f"{FOLDER}{os.getpid()}-") as name:
        folder = Path(name)
        snapshot = folder / "snapshot"
        latest = ray.get(mailbox.latest.remote(job.key))
        if latest is not None:
            snapshot.write_bytes(latest)
        for file, content in (trained or {}).items():
            (folder / file).write_bytes(content)
        job = replace(job, snapshot=snapshot, trained=folder if trained else None)
        with _posting(snapshot, lambda content: ray.get(mailbox.keep.remote(job.key, content, new=True))):
            return execute(job, lambda row: mailbox.report.remote(job.key, row.epoch + 1))


def sweep(folder: Path) -> None:
    """Remove the folders of tasks on this node whose process was killed."""
    for left in folder.glob(f"{FOLDER}*"):
        process = left.name.removeprefix(FOLDER).partition("-")[0]
        if process.isdigit() and not alive(int(process)):
            shutil.rmtree(left, ignore_errors=True)


@contextmanager
def _posting(snapshot: Path, send: Callable[[bytes], object]) -> Iterator[None]:
    """Send every new version of a file while the block runs."""
    over = threading.Event()

    def post() -> None:
        sent = snapshot.stat().st_mtime_ns if snapshot.exists() else 0
        while not over.wait(POST):
            with suppress(Exception):  # no file yet, or a lost mailbox: the run goes on, and its task tells its end
                changed = snapshot.stat().st_mtime_ns
                if changed != sent:
                    sent = changed
                    send(snapshot.read_bytes())

    thread = threading.Thread(target=post, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _connected(address: str) -> Any:
    """Ray, connected to the cluster; no usage statistics leave the machine."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise NoCluster(
            "--ray needs the package ray, which is not installed.\n"
            "Without it runs stay on this machine. Install it with: pip install 'creditscope[ray]'"
        ) from error
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", ignore_reinit_error=True)
    except (ConnectionError, ValueError, RuntimeError, TimeoutError) as error:
        raise NoCluster(
            f"There is no Ray cluster at {address!r}: {error}\n"
            "Nothing was run. Start one with `ray start --head`, or leave --ray out to use this machine's cores."
        ) from error
    return ray
