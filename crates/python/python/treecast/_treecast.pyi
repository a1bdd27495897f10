import os
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Literal, Optional, Union, final, overload

__all__ = [
    "Announced",
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
    "Standing",
    "StandingEvent",
    "StandingRule",
    "Transfer",
    "TreecastError",
    "ask_code",
    "discover",
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

    kind: Literal[
        "joined", "left", "started", "done", "warning", "missed", "code_given", "code_wrong"
    ]
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
    The keywords have the names of the command's options (``treecast send --help``). ``rate`` is in bits per second; None is
    ``"auto"``, and 50 Mbit/s for a carousel. Other options of the command are keywords, too: ``stall_limit="2m"``. Their values are
    those of the command, or numbers and switches.

    ``announce`` is the name under which the session is announced on the network; an empty one is that of the first path.
    ``to_standing`` are the standing receivers that the session is for: names or keys with commas between them, or a file with
    one a line, or an empty text for all that trust the key. With ``code``, receivers on the same network get the ticket by a short code.

    ``paths`` are sent from the beginning. With ``delta``, receivers that have older versions fetch only what differs. With
    ``carousel``, they are sent again and again to those who come at any time. With ``session``, a file for its state, the session
    goes on after a restart. ``feed_folder`` is a folder whose files are sent, those that are there and those that come, until ``stop``.
    A session with one of these four takes no other objects.
    """

    def __new__(
        cls,
        *,
        interface: Optional[str] = None,
        wait: int = 1,
        wait_timeout: Optional[float] = None,
        rate: Union[int, Literal["auto", "max"], None] = None,
        retx_factor: Optional[float] = None,
        retx_minimum: Optional[float] = None,
        group: Optional[str] = None,
        port: Optional[int] = None,
        fanout: Optional[Literal["multicast", "unicast", "mead", "xcast", "auto"]] = None,
        plain: bool = False,
        key: Optional[str] = None,
        allow: Optional[Union[str, os.PathLike[str]]] = None,
        compress: Optional[int] = None,
        most_outstanding: Optional[int] = None,
        paths: Optional[Sequence[Union[str, os.PathLike[str]]]] = None,
        feed_folder: Optional[Union[str, os.PathLike[str]]] = None,
        delta: bool = False,
        session: Optional[Union[str, os.PathLike[str]]] = None,
        carousel: Optional[CarouselOptions] = None,
        announce: Optional[str] = None,
        to_standing: Optional[str] = None,
        code: bool = False,
        **options: Union[str, float, bool],
    ) -> Group: ...
    @property
    def ticket(self) -> str: ...
    @property
    def code(self) -> Optional[str]:
        """The short code by which receivers on the same network get the ticket. After five wrong guesses it is of no use."""

    def send_file(
        self,
        path: Union[str, os.PathLike[str]],
        *,
        name: Optional[str] = None,
        retx_factor: Optional[float] = None,
    ) -> Transfer: ...
    def send_bytes(
        self, name: str, data: Union[bytes, bytearray], *, retx_factor: Optional[float] = None
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
    """A receiver that has joined a group. Without a folder ``into``, objects come in memory, as ``data`` of their event.

    ``ticket`` is the text of a ticket, or @ and the path of a file with it. The keywords have the names of the command's options
    (``treecast receive --help``).
    ``accept`` decides about each object: True takes it, False refuses it, and a string takes it under that name.
    ``old`` is where older versions of objects are: a file, a block device, or a folder. None is the folder.
    For ``reconnect`` seconds (None: two minutes), the receiver looks for a sender that it has lost.
    ``on_event`` gets each event, in place of ``next_event`` and ``next_batch``. Both functions are called in another thread, so
    they must return soon; calls of the receiver that wait raise an error there. An exception in them is printed; ``accept`` then
    refuses the object. When Python ends, it waits for the functions that run, and calls none any more.
    """

    def __new__(
        cls,
        ticket: str,
        *,
        into: Optional[Union[str, os.PathLike[str]]] = None,
        interface: Optional[str] = None,
        accept: Optional[Callable[[Offer], Union[bool, str]]] = None,
        name: Optional[str] = None,
        key: Optional[str] = None,
        connect_timeout: Optional[float] = None,
        reconnect: Optional[float] = None,
        old: Optional[Union[str, os.PathLike[str]]] = None,
        on_event: Optional[Callable[[ReceiverEvent], object]] = None,
        max_files: Optional[int] = None,
        max_bytes: Optional[int] = None,
        keep_existing: bool = False,
        secure: bool = False,
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

@final
class Announced:
    """A session that somebody announces on the network. ``sender`` is the public key that has signed it; ``size`` is in bytes."""

    name: str
    ticket: str
    sender: str
    objects: int
    size: int

def discover(*, time: float = 3.0, interfaces: Optional[Sequence[str]] = None) -> list[Announced]:
    """Listens for announced sessions for so many seconds, on these interfaces or on all that are up."""

def ask_code(code: str, *, time: float = 30.0, interfaces: Optional[Sequence[str]] = None) -> str:
    """The ticket of the sender on this network that offers it for a short code, within so many seconds."""

@final
class StandingRule:
    """A rule of a standing receiver: whose sessions it takes, and what becomes of them.

    ``senders`` are the public keys of senders. ``session`` is a pattern of sessions' names, such as ``image*``. ``command`` has the
    words of a program that runs after a session that is complete; ``{}`` in a word stands for the folder ``into``. Times are in
    seconds. The other keywords are fields of the configuration file of ``treecast receive --standing``, or are as in ``Receiver``.
    """

    def __new__(
        cls,
        *,
        senders: Sequence[str],
        into: Union[str, os.PathLike[str]],
        session: Optional[str] = None,
        owner: Optional[str] = None,
        keep_existing: bool = False,
        hidden: bool = False,
        max_files: Optional[int] = None,
        max_bytes: Optional[int] = None,
        max_time: Optional[float] = None,
        command: Optional[Sequence[str]] = None,
        command_time: Optional[float] = None,
        accept: Optional[Callable[[Offer], Union[bool, str]]] = None,
        audience: Optional[Literal["standing", "named", "anybody"]] = None,
        in_order: bool = False,
    ) -> StandingRule: ...

@final
class StandingEvent:
    """An event of a standing receiver, as its history has it. Attributes that it has not are None.

    ``kind`` is a word such as ``started``, ``began``, ``received``, ``interrupted``, ``given_up``, ``ignored``, ``command_run``,
    ``command_failed`` or ``warning``. ``at`` is in seconds since 1970.
    """

    kind: str
    at: int
    name: Optional[str]
    session: Optional[str]
    sender: Optional[str]
    into: Optional[str]
    files: Optional[int]
    size: Optional[int]
    text: Optional[str]

@final
class Standing:
    """A receiver that stays: it takes announced sessions of senders that it trusts, again and again.

    ``state`` is the folder for its history and its key. The first rule that takes a session counts. As a context manager it is
    stopped at the end.
    """

    def __new__(
        cls,
        state: Union[str, os.PathLike[str]],
        rules: Sequence[StandingRule],
        *,
        key: Optional[str] = None,
        name: Optional[str] = None,
        interfaces: Optional[Sequence[str]] = None,
        at_once: Optional[int] = None,
    ) -> Standing: ...
    @property
    def key(self) -> str:
        """The public key of the receiver, which senders name to send to it."""

    def next_event(self, timeout: Optional[float] = None) -> Optional[StandingEvent]:
        """The next event. None at the end, or if none came within so many seconds."""

    def __iter__(self) -> Iterator[StandingEvent]: ...
    def __next__(self) -> StandingEvent: ...
    def stop(self) -> None:
        """Asks it to end. What is under way is taken up again by the next start with the same folder ``state``."""

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Waits until it has ended. False if it has not after so many seconds."""

    def __enter__(self) -> Standing: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> bool: ...
