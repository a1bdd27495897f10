"""Sends the same files and memory to many receivers, by reliable multicast.

The calls are those of the Rust library. Calls that wait let other threads run, so asyncio programs use
``await asyncio.to_thread(group.next_event)``.
"""

from ._treecast import (
    CarouselOptions,
    Delivery,
    Group,
    GroupEvent,
    GroupProgress,
    GroupReport,
    Offer,
    Receiver,
    ReceiverEvent,
    ReceiverProgress,
    ReceiverReport,
    Transfer,
    TreecastError,
)

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
