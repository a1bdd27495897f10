"""Sends files: send_files.py INTERFACE RECEIVERS FILE... The first line is the ticket."""

import sys

import treecast


def main(interface: str, receivers: str, *files: str) -> int:
    group = treecast.Group(interface=interface, wait=int(receivers))
    print(group.ticket, flush=True)
    for file in files:
        group.send_file(file, retx_factor=50.0)
    group.close()
    for event in group:
        if event.kind == "joined":
            print(f"{event.receiver} has joined")
        elif event.delivery is not None:
            print(f"{event.delivery.name} is at {event.delivery.complete} receivers")
        elif event.kind == "warning":
            print(event.text, file=sys.stderr)
    return 0 if group.wait().is_complete() else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
