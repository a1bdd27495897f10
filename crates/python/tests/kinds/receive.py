"""Receives: receive.py FOLDER TICKET OLD."""

import sys

import treecast


def main(folder: str, ticket: str, old: str) -> int:
    receiver = treecast.Receiver(ticket, interface="lo", folder=folder, old=old, reconnect=60)
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
