"""Sends numbers from memory: send_memory.py INTERFACE RECEIVERS COUNT. The first line is the ticket."""

import sys

import treecast


def main(interface: str, receivers: str, count: str) -> int:
    sent = []
    with treecast.Group(interface=interface, wait=int(receivers)) as group:
        print(group.ticket, flush=True)
        for number in range(int(count)):
            group.wait_for_room()
            sent.append(group.send_bytes(f"product/{number}", b"%d\n" % number, retx_factor=10.0))
    # The end of the block has closed the group and waited for it.
    complete = sum(product.wait().is_complete() for product in sent)
    print(f"{complete} of {count} products are everywhere")
    return 0 if complete == len(sent) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
