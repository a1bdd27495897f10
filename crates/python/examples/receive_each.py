"""Is asked about each object: receive_each.py INTERFACE FOLDER TICKET. Names that end with .tmp are refused."""

import sys

import treecast


def is_wanted(offer: treecast.Offer) -> bool:
    return not offer.name.endswith(".tmp")


def main(interface: str, folder: str, ticket: str) -> int:
    receiver = treecast.Receiver(ticket, interface=interface, folder=folder, accept=is_wanted)
    for event in receiver:
        if event.kind == "received":
            print(f"{event.path} is there")
        elif event.kind == "failed":
            print(f"{event.name} failed: {event.text}")
    return 0 if receiver.wait().is_complete() else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
