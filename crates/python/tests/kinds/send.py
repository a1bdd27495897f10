"""Sends by itself: send.py KIND PATH SESSION_FILE. Stops when its input ends."""

import select
import sys

import treecast


def main(kind: str, path: str, session_file: str) -> int:
    group = treecast.Group(
        interface="lo",
        # A session is slow enough to be stopped in the middle.
        rate=5_000_000 if kind == "session" else 50_000_000,
        wait=1 if kind == "carousel" else 3,
        paths=None if kind == "feed" else [path],
        feed_folder=path if kind == "feed" else None,
        delta=kind == "delta",
        session=session_file if kind == "session" else None,
        # Ten seconds, in which all receivers have started on a busy machine, too.
        carousel=treecast.CarouselOptions(loops=200, idle=8) if kind == "carousel" else None,
    )
    print(group.ticket, flush=True)
    watched = [sys.stdin]
    while True:
        event = group.next_event(timeout=0.05)
        if event is not None and event.delivery is not None:
            done = event.delivery
            number = -1 if done.id is None else done.id
            print(f"done {done.name} {number} at {done.complete}", flush=True)
        if select.select(watched, [], [], 0)[0]:
            group.stop()
            watched = []
        if event is None and is_over(group):
            break
    return 0


def is_over(group: treecast.Group) -> bool:
    progress = group.progress()
    try:
        report = group.wait(timeout=0)
    except treecast.TreecastError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
    if report is not None:
        print(f"sent {progress.sent_size} stopped {int(report.is_stopped)}")
    return report is not None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
