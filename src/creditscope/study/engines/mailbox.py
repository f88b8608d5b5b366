"""The mailbox of the Ray engine: an actor beside the driver, to which tasks report epochs and send snapshots."""

from __future__ import annotations

from collections.abc import Sequence


class Mailbox:
    """Holds the epochs and latest snapshots that tasks report until the driver collects them."""

    def __init__(self) -> None:
        self._epochs: dict[str, int] = {}
        self._new: set[str] = set()
        self._snapshots: dict[str, bytes] = {}

    def report(self, key: str, done: int) -> None:
        """A run has finished an epoch, `done` in all."""
        self._epochs[key] = done

    def keep(self, key: str, content: bytes, new: bool = False) -> None:
        """Keep the latest snapshot of a run."""
        self._snapshots[key] = content
        if new:
            self._new.add(key)

    def latest(self, key: str) -> bytes | None:
        """The snapshot from which a run resumes."""
        return self._snapshots.get(key)

    def collect(self, ended: Sequence[str] = ()) -> tuple[dict[str, int], dict[str, bytes]]:
        """Epochs and snapshots reported since the last call; those of runs that have ended are dropped."""
        for key in ended:
            self._snapshots.pop(key, None)
            self._epochs.pop(key, None)
        epochs, self._epochs = self._epochs, {}
        new, self._new = self._new, set()
        return epochs, {key: self._snapshots[key] for key in new if key in self._snapshots}
