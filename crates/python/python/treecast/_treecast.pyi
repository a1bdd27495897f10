import os
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Literal, Optional, Union, final, overload

__all__ = [
    "CarouselOptions",
    "Delivery",
    "Group",
    "GroupEvent",
    "GroupProgress",
    "GroupReport",
    "Offer",
    "Receiver",
    "ReceiverEvent",
    "ReceiverProgress",
    "ReceiverReport",
    "Transfer",
    "TreecastError",
]

class TreecastError(Exception):
    """The reason why a call failed: one line. ``kind`` is one of the library's ``ErrorKind`` in lower case."""

    kind: str

@final
class Delivery:
    """What has become of an object. ``size`` is in bytes; the other numbers count receivers.

    ``id`` is None for an object that the session sends by itself, out of ``paths`` or ``feed_folder``.
    """

    id: Optional[int]
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
class GroupProgress:
    """How far a group is. ``sent_size`` counts the bytes of objects that were sent to the group, without retransmissions.

    ``rate`` is in bits per second. It is None if only receivers limit it.
    """

    seconds: float
    sent_size: int
    size: int
    rate: Optional[int]
    receivers: int

@final
class GroupReport:
    """What has come of a group. ``is_stopped`` says whether it was stopped before its end."""

    objects: int
    size: int
    seconds: float
    receivers: list[str]
    is_stopped: bool
    def is_complete(self) -> bool: ...

@final
class CarouselOptions:
    """The options of a carousel.

    It ends after so many ``loops``, or when nobody has listened for ``idle`` seconds (None: ten).
    """

    def __new__(cls, *, loops: Optional[int] = None, idle: Optional[float] = None) -> CarouselOptions: ...
    @property
    def loops(self) -> Optional[int]: ...
    @property
    def idle(self) -> Optional[float]: ...

@final
class Group:
    """A group of receivers, and the session that sends objects to them.

    As a context manager it closes the group and waits for its end; after an exception it stops the session.
    ``rate`` is in bits per second; None is ``"auto"``, and ``"max"`` for a carousel.

    ``paths`` are sent from the beginning. With ``delta``, receivers that have older versions fetch only what differs. With
    ``carousel``, they are sent again and again to those who come at any time. With ``session_file``, the session goes on after
    a restart. ``feed_folder`` is a folder whose files are sent, those that are there and those that come, until ``stop``.
    A session with one of these four takes no other objects.
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
        paths: Optional[Sequence[Union[str, os.PathLike[str]]]] = None,
        feed_folder: Optional[Union[str, os.PathLike[str]]] = None,
        delta: bool = False,
        session_file: Optional[Union[str, os.PathLike[str]]] = None,
        carousel: Optional[CarouselOptions] = None,
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
    def progress(self) -> GroupProgress: ...
    def close(self) -> None: ...
    def stop(self) -> None:
        """Stops the session. A feed finishes the files under way, for at most 30 s."""

    @overload
    def wait(self, timeout: None = None) -> GroupReport: ...
    @overload
    def wait(self, timeout: float) -> Optional[GroupReport]:
        """Waits until the session is over. The report can be taken once. None if it is not over after so many seconds."""

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
class ReceiverProgress:
    """How far a receiver is. Sizes are in bytes; ``objects`` are those that are complete and verified."""

    size: int
    announced_size: int
    retransmitted_size: int
    objects: int

@final
class ReceiverReport:
    """What has come to a receiver. ``has_left`` says whether ``leave`` ended the session."""

    objects: int
    size: int
    failed: int
    not_wanted: int
    cut_short: Optional[str]
    has_left: bool
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
    ``old`` is where older versions of objects are: a file, a block device, or a folder. None is the folder.
    For ``reconnect`` seconds (None: two minutes), the receiver looks for a sender that it has lost.
    ``on_event`` gets each event, in place of ``next_event`` and ``next_batch``. Both functions are called in another thread, so
    they must return soon, and must not call ``wait``. An exception in them is printed; ``accept`` then refuses the object.
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
        reconnect: Optional[float] = None,
        old: Optional[Union[str, os.PathLike[str]]] = None,
        on_event: Optional[Callable[[ReceiverEvent], object]] = None,
    ) -> Receiver: ...
    def next_event(self, timeout: Optional[float] = None) -> Optional[ReceiverEvent]:
        """The next event. None at the end, or if none came within so many seconds."""

    def next_batch(self, period: float) -> Optional[list[ReceiverEvent]]:
        """Waits for so many seconds, or until the session is over, and returns the events of that time. None at the end."""

    def __iter__(self) -> Iterator[ReceiverEvent]: ...
    def __next__(self) -> ReceiverEvent: ...
    def progress(self) -> ReceiverProgress: ...
    def leave(self) -> None: ...
    @overload
    def wait(self, timeout: None = None) -> ReceiverReport: ...
    @overload
    def wait(self, timeout: float) -> Optional[ReceiverReport]:
        """Waits until the session is over. The report can be taken once. None if it is not over after so many seconds."""

    def __enter__(self) -> Receiver: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> bool: ...
