import os
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Literal, Optional, Union, final, overload

__all__ = [
    "Delivery",
    "Group",
    "GroupEvent",
    "GroupReport",
    "Offer",
    "Receiver",
    "ReceiverEvent",
    "ReceiverReport",
    "Transfer",
    "TreecastError",
]

class TreecastError(Exception):
    """The reason why a call failed: one line. ``kind`` is one of the library's ``ErrorKind`` in lower case."""

    kind: str

@final
class Delivery:
    """What has become of an object. ``size`` is in bytes; the other numbers count receivers."""

    id: int
    name: str
    size: int
    complete: int
    not_wanted: int
    failed: int
    problem: Optional[str]
    def is_complete(self) -> bool: ...

@final
class Transfer:
    """An object on its way."""

    id: int
    @overload
    def wait(self, timeout: None = None) -> Delivery: ...
    @overload
    def wait(self, timeout: float) -> Optional[Delivery]:
        """Waits until the group is done with the object. None if it is not after so many seconds."""

@final
class GroupEvent:
    """An event of a group. Attributes that a kind has not are None."""

    kind: Literal["joined", "left", "started", "done", "warning", "missed"]
    receiver: Optional[str]
    delivery: Optional[Delivery]
    text: Optional[str]

@final
class GroupReport:
    """What has come of a group."""

    objects: int
    size: int
    seconds: float
    receivers: list[str]
    def is_complete(self) -> bool: ...

@final
class Group:
    """A group of receivers, and the session that sends objects to them.

    As a context manager it closes the group and waits for its end; after an exception it stops the session.
    ``rate`` is in bits per second; None is ``"auto"``.
    """

    def __new__(
        cls,
        *,
        interface: Optional[str] = None,
        wait_for: int = 1,
        wait_timeout: Optional[float] = None,
        rate: Union[int, Literal["auto", "max"], None] = None,
        retransmission_factor: Optional[float] = None,
        address: Optional[str] = None,
        port: Optional[int] = None,
        unicast: bool = False,
        plain: bool = False,
        key: Optional[str] = None,
        admit: Optional[Union[str, os.PathLike[str]]] = None,
        compression: Optional[int] = None,
        most_outstanding: Optional[int] = None,
    ) -> Group: ...
    @property
    def ticket(self) -> str: ...
    def send_file(
        self,
        path: Union[str, os.PathLike[str]],
        *,
        name: Optional[str] = None,
        factor: Optional[float] = None,
    ) -> Transfer: ...
    def send_bytes(
        self, name: str, data: Union[bytes, bytearray], *, factor: Optional[float] = None
    ) -> Transfer:
        """Sends bytes. ``bytes`` are not copied, and a ``bytearray`` is."""

    def wait_for_room(self) -> None: ...
    def next_event(self, timeout: Optional[float] = None) -> Optional[GroupEvent]:
        """The next event. None at the end, or if none came within so many seconds."""

    def __iter__(self) -> Iterator[GroupEvent]: ...
    def __next__(self) -> GroupEvent: ...
    def close(self) -> None: ...
    def stop(self) -> None: ...
    def wait(self) -> GroupReport:
        """Waits until the session is over. Works once."""

    def __enter__(self) -> Group: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> bool: ...

@final
class ReceiverEvent:
    """An event of a receiver. Attributes that a kind has not are None."""

    kind: Literal[
        "joined", "unreachable", "announced", "received", "ignored", "failed", "warning", "missed"
    ]
    name: Optional[str]
    size: Optional[int]
    path: Optional[str]
    data: Optional[bytes]
    text: Optional[str]

@final
class ReceiverReport:
    """What has come to a receiver."""

    objects: int
    size: int
    failed: int
    not_wanted: int
    cut_short: Optional[str]
    def is_complete(self) -> bool: ...

@final
class Offer:
    """An object that the sender announces. ``size`` is in bytes."""

    name: str
    size: int

@final
class Receiver:
    """A receiver that has joined a group. Without a folder, objects come in memory, as ``data`` of their event.

    ``accept`` decides about each object: True takes it, False refuses it, and a string takes it under that name.
    """

    def __new__(
        cls,
        ticket: str,
        *,
        folder: Optional[Union[str, os.PathLike[str]]] = None,
        interface: Optional[str] = None,
        accept: Optional[Callable[[Offer], Union[bool, str]]] = None,
        name: Optional[str] = None,
        key: Optional[str] = None,
        connect_timeout: Optional[float] = None,
    ) -> Receiver: ...
    def next_event(self, timeout: Optional[float] = None) -> Optional[ReceiverEvent]:
        """The next event. None at the end, or if none came within so many seconds."""

    def next_batch(self, period: float) -> Optional[list[ReceiverEvent]]:
        """Waits for so many seconds, or until the session is over, and returns the events of that time. None at the end."""

    def __iter__(self) -> Iterator[ReceiverEvent]: ...
    def __next__(self) -> ReceiverEvent: ...
    def leave(self) -> None: ...
    def wait(self) -> ReceiverReport:
        """Waits until the session is over. Works once."""

    def __enter__(self) -> Receiver: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> bool: ...
