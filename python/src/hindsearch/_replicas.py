"""The replicas of a service: whose turn it is, and which are left alone for a while."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ._settings import Address

OPENS_AFTER = 10
"""Failures in a row that open a replica's circuit."""
PROBE_EVERY = 5.0
"""Seconds between the single tries that an open circuit lets through."""


@dataclass(eq=False)
class Replica:
    address: Address
    failures: int = 0
    probe_at: float = 0.0
    idle: list[Any] = field(default_factory=list, repr=False)
    """Connections kept alive; their kind is the transport's affair."""

    def open(self) -> bool:
        return self.failures >= OPENS_AFTER


class Replicas:
    """All replicas, in turn. Times are `time.monotonic` seconds."""

    def __init__(self, addresses: Sequence[Address]) -> None:
        self.all = [Replica(address) for address in addresses]
        self._turn = 0
        self._lock = threading.Lock()

    def pick(self, now: float, resume: Mapping[Replica, float]) -> tuple[Replica, float]:
        """The replica that can be tried soonest, and the seconds until then. With 0 seconds the try is the caller's.

        `resume` says when each replica that failed this caller may be tried again by it.
        """
        with self._lock:
            self._turn += not resume  # a caller's later tries leave the others' turns alone
            first = self._turn % len(self.all)

            def wait(replica: Replica) -> float:
                return max(0.0, resume.get(replica, now) - now, replica.probe_at - now if replica.open() else 0.0)

            replica = min(self.all[first:] + self.all[:first], key=lambda one: (wait(one), one in resume))
            seconds = wait(replica)
            if not seconds and replica.open():
                # Taking the probe moves the next one, so that it stays one however many callers wait.
                replica.probe_at = now + PROBE_EVERY
            return replica, seconds

    def report(self, replica: Replica, now: float, failed: bool) -> None:
        with self._lock:
            if not failed:
                replica.failures = 0
                return
            replica.failures += 1
            if replica.failures >= OPENS_AFTER:
                replica.probe_at = now + PROBE_EVERY
