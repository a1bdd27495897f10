"""Is asked about each object, and told of it: receive_each.py INTERFACE FOLDER TICKET. Names that end with .tmp are refused."""

import sys

import treecast


def is_wanted(offer: treecast.Offer) -> bool:
    return not offer.name.endswith(".tmp")


def tell(event: treecast.ReceiverEvent) -> None:
    if event.kind == "received":
        print(f"{event.path} is there")
    elif event.kind == "failed":
        print(f"{event.name} failed: {event.text}")


def main(interface: str, folder: str, ticket: str) -> int:
    receiver = treecast.Receiver(
        ticket, interface=interface, into=folder, accept=is_wanted, on_event=tell
    )
    return 0 if receiver.wait().is_complete() else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
