"""Receives: receive.py FOLDER TICKET OLD. Drafts are refused, and files of radar/ get another name."""

import sys
from typing import Union

import treecast


def accept(offer: treecast.Offer) -> Union[bool, str]:
    if offer.name.startswith("radar/"):
        return "archive/radar"
    return not offer.name.endswith(".tmp")


def main(folder: str, ticket: str, old: str) -> int:
    receiver = treecast.Receiver(
        ticket, interface="lo", into=folder, old=old, reconnect=60, accept=accept
    )
    for event in receiver:
        if event.text is not None:
            print(event.text)
    progress = receiver.progress()
    print(f"{progress.size} bytes, {progress.objects} objects")
    report = receiver.wait()
    if not report.is_complete():
        print(report.cut_short, file=sys.stderr)
    return 0 if report.is_complete() else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
