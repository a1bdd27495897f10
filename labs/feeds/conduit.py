#!/usr/bin/env python3
"""Parts of conduit.sh: plays a log of a feed, carries it by TCP to each receiver (LDM's way), and compares what has come.

    conduit.py play LOG START SECONDS EVERY TIMES FOLDER     write the products as files, each at its time
    conduit.py serve LOG START SECONDS EVERY TIMES COUNT ADDRESS PORT   send the products to COUNT receivers by TCP
    conduit.py fetch ADDRESS PORT FOLDER               receive them
    conduit.py compare TIMES NAME SLOW FOLDER...       delays and shares; the last SLOW folders are those of slow receivers
"""

import os
import re
import socket
import statistics
import struct
import sys
import threading
import time

PRODUCT = re.compile(rb"\] +INFO:? +(?:[0-9a-f]{32} +)?(\d+) (\d{14}\.\d+) ")


def seconds_of(text):
    """Seconds since midnight of a time like 20101013000001.123."""
    return int(text[8:10]) * 3600 + int(text[10:12]) * 60 + float(text[12:])


def products(log, start, seconds, every):
    """Each EVERY-th product of so many seconds from START on: the time, the name and the size."""
    with open(log, "rb") as lines:
        for number, line in enumerate(filter(None, map(PRODUCT.search, lines))):
            at = seconds_of(line.group(2).decode()) - start
            if at >= seconds:
                return
            if at >= 0 and number % every == 0:
                yield at, f"p{number:07}", int(line.group(1))


def played(log, start, seconds, every, times):
    """The products with their bytes, each at its time. TIMES gets a line for each."""
    todo = list(products(log, float(start), float(seconds), int(every)))
    begin = time.time()
    with open(times, "w") as told:
        for at, name, size in todo:
            time.sleep(max(0.0, begin + at - time.time()))
            told.write(f"{name} {time.time()} {size}\n")
            yield name, os.urandom(size)


def play(log, start, seconds, every, times, folder):
    for name, data in played(log, start, seconds, every, times):
        with open(f"{folder}/.{name}", "wb") as file:
            file.write(data)
        os.rename(f"{folder}/.{name}", f"{folder}/{name}")


def serve(log, start, seconds, every, times, count, address, port):
    sent, changed = [], threading.Condition()
    listener = socket.create_server((address, int(port)), family=socket.AF_INET6)

    def feed(connection):
        at = 0
        while True:
            with changed:
                changed.wait_for(lambda: at < len(sent))
                item = sent[at]
            at += 1
            if item is None:
                return connection.close()
            connection.sendall(item)

    connections = [listener.accept()[0] for _ in range(int(count))]
    threads = [threading.Thread(target=feed, args=(one,), daemon=True) for one in connections]
    for thread in threads:
        thread.start()
    for name, data in played(log, start, seconds, every, times):
        with changed:
            sent.append(struct.pack("!8sI", name.encode(), len(data)) + data)
            changed.notify_all()
    with changed:
        sent.append(None)
        changed.notify_all()
    for thread in threads:
        thread.join()


def fetch(address, port, folder):
    while True:
        try:
            stream = socket.create_connection((address, int(port)), timeout=120).makefile("rb")
            break
        except OSError:
            time.sleep(0.2)
    while len(head := stream.read(12)) == 12:
        name, size = struct.unpack("!8sI", head)
        path = f"{folder}/{name.decode()}"
        with open(path + ".part", "wb") as file:
            file.write(stream.read(size))
        os.rename(path + ".part", path)


def compare(times, name, slow, *folders):
    sent = {}
    for line in open(times):
        product, at, size = line.split()
        sent[product] = (float(at), int(size))
    fast = folders[: len(folders) - int(slow)]
    delays = [
        os.stat(f"{folder}/{product}").st_ctime - at
        for folder in fast
        for product, (at, _) in sent.items()
        if os.path.exists(f"{folder}/{product}")
    ]

    def share(folder):
        return sum(os.path.exists(f"{folder}/{product}") for product in sent) / len(sent)

    def mean(folders):
        return f"{100 * statistics.mean(map(share, folders)):.2f} %" if folders else "-"

    cuts = statistics.quantiles(delays, n=100)
    total = sum(size for _, size in sent.values()) / 1e6
    print(
        f"{name:28} {len(sent)} products, {total:.1f} MB; fast: {mean(fast)}, delay mean {1e3 * statistics.mean(delays):.1f} ms, "
        f"median {1e3 * cuts[49]:.1f}, 95 % {1e3 * cuts[94]:.1f}, 99 % {1e3 * cuts[98]:.1f}; slow: {mean(folders[len(fast):])}"
    )


globals()[sys.argv[1]](*sys.argv[2:])
