"""Receives into memory, and takes what has come every 100 ms together: receive_batch.py INTERFACE FOLDER TICKET.

It writes the bytes of each object into the folder, "/" in its name replaced by "_".
"""

import pathlib
import sys

import treecast


def main(interface: str, folder: str, ticket: str) -> int:
    receiver = treecast.Receiver(ticket, interface=interface)
    while (batch := receiver.next_batch(0.1)) is not None:
        for event in batch:
            if event.data is not None and event.name is not None:
                path = pathlib.Path(folder, event.name.replace("/", "_"))
                path.write_bytes(event.data)
                print(f"{path} is there")
    return 0 if receiver.wait().is_complete() else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
