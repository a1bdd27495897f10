"""Sends the same files and memory to many receivers, by reliable multicast.

The calls are those of the Rust library. Calls that wait let other threads run, so asyncio programs use
``await asyncio.to_thread(group.next_event)``.
"""

from ._treecast import (
    Announced,
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
    Standing,
    StandingEvent,
    StandingRule,
    Transfer,
    TreecastError,
    ask_code,
    discover,
)

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
