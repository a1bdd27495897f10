"""A protocol of somebody else, as small as it can be: one TCP connection for each receiver (docs/other-programs.md).

    serve.py send FILE ADDRESS
    serve.py receive COPY ADDRESS TICKET
"""

import json
import shutil
import socket
import sys
import threading
import time


def tell(event, **more):
    print(json.dumps({"event": event, **more}), flush=True)


def send(file, address):
    listener = socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET)
    # The ticket is any text: each receiver gets it on its command line.
    tell("ready", ticket=str(listener.getsockname()[1]))
    served = 0
    lock = threading.Lock()

    def serve(connection):
        nonlocal served
        with connection, open(file, "rb") as source:
            connection.sendfile(source)
        with lock:
            served += 1
            tell("figures", figures={"served": served})

    # The experiment ends the sender by SIGINT when all receivers are done.
    try:
        while True:
            threading.Thread(target=serve, args=(listener.accept()[0],)).start()
    except KeyboardInterrupt:
        pass


def receive(copy, address, ticket):
    begun = time.monotonic()
    with socket.create_connection((address, int(ticket))) as connection, open(copy, "wb") as target:
        connected = time.monotonic()
        shutil.copyfileobj(connection.makefile("rb"), target)
    tell("figures", figures={"connecting": connected - begun, "transfer": time.monotonic() - connected})


{"send": send, "receive": receive}[sys.argv[1]](*sys.argv[2:])
