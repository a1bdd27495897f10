"""Tests of the package treecast. The test programs.rs runs them."""

import _thread
import ast
import asyncio
import gc
import inspect
import pathlib
import signal
import sys
import threading
import time
import unittest

import treecast
from treecast import _treecast


def group(**options):
    return treecast.Group(interface="lo", **options)


def join(sender, **options):
    return treecast.Receiver(sender.ticket, interface="lo", **options)


class Package(unittest.TestCase):
    def test_a_group_sends_and_a_receiver_chooses(self):
        with group(rate="max", retransmission_factor=10, compression=3) as sender:
            receiver = join(sender, accept=lambda offer: offer.name != "refused", name="chooser")
            wanted = sender.send_bytes("wanted", b"bytes" * 1000, factor=2)
            refused = sender.send_bytes("refused", bytearray(b"x"))
            self.assertEqual((wanted.id, refused.id), (0, 1))
        self.assertTrue(wanted.wait().is_complete())
        self.assertEqual((refused.wait(1).complete, refused.wait(1).not_wanted), (0, 1))
        kinds = [event.kind for event in sender]
        self.assertEqual((kinds[:2], kinds[2:]), (["joined", "started"], ["done", "done"]))
        came = {event.name: event.data for event in receiver if event.kind == "received"}
        self.assertEqual(came, {"wanted": b"bytes" * 1000})
        report = receiver.wait()
        self.assertEqual((report.objects, report.not_wanted, report.cut_short), (1, 1, None))
        with self.assertRaises(treecast.TreecastError) as raised:
            receiver.wait()
        self.assertEqual(raised.exception.kind, "closed")

    def test_a_receiver_chooses_by_size_renames_and_takes_batches(self):
        def accept(offer):
            return f"old/{offer.name}" if offer.size < 2000 else offer.size == 3000

        with group(wait_for=1) as sender:
            receiver = join(sender, accept=accept)
            for name, size in [("a", 1000), ("b", 3000), ("c", 5000)]:
                sender.send_bytes(name, bytes(size))
        batches = []
        while (batch := receiver.next_batch(0.2)) is not None:
            batches.append(batch)
        came = {event.name: event.size for batch in batches for event in batch if event.kind == "received"}
        self.assertEqual(came, {"old/a": 1000, "b": 3000})
        self.assertEqual(receiver.wait().not_wanted, 1)
        self.assertIsNone(receiver.next_batch(10))
        with self.assertRaises(treecast.TreecastError):
            receiver.next_batch(-1)

    def test_a_function_gets_each_event(self):
        came, failures = {}, []

        def on_event(event):
            if event.kind == "received":
                came[event.name] = event.data
                raise ValueError("printed, and the session goes on")

        hook, sys.unraisablehook = sys.unraisablehook, lambda failure: failures.append(str(failure.exc_value))
        self.addCleanup(setattr, sys, "unraisablehook", hook)
        with group() as sender:
            receiver = join(sender, on_event=on_event)
            for name in ["a", "b"]:
                sender.send_bytes(name, name.encode() * 1000)
        self.assertTrue(receiver.wait(10).is_complete())
        self.assertEqual(came, {"a": b"a" * 1000, "b": b"b" * 1000})
        self.assertEqual(len(failures), 2, failures)
        self.assertIsNone(receiver.next_event())

    def test_ctrl_c_loses_no_events_of_a_batch(self):
        sender = group()
        receiver = join(sender)
        for name in ["first", "second"]:
            sender.send_bytes(name, b"x").wait()
        # Ctrl-C is ignored in programs that a shell runs in the background.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        threading.Timer(0.5, _thread.interrupt_main).start()
        with self.assertRaises(KeyboardInterrupt):
            receiver.next_batch(60)
        sender.close()
        kinds = [receiver.next_event().kind]
        kinds += [event.kind for event in receiver.next_batch(10)]
        self.assertEqual((kinds[0], kinds.count("received")), ("joined", 2))
        self.assertEqual(receiver.wait(10).objects, 2)

    def test_what_a_session_sends_by_itself(self):
        mistakes = [
            ({"paths": ["/no/such/path"]}, "file"),
            ({"paths": [__file__], "delta": True, "compression": 3}, "options"),
        ]
        for options, kind in mistakes:
            with self.assertRaises(treecast.TreecastError) as raised:
                group(**options)
            self.assertEqual(raised.exception.kind, kind, options)
        carousel = treecast.CarouselOptions(loops=3, idle=1.5)
        self.assertEqual((carousel.loops, carousel.idle), (3, 1.5))
        sender = group(paths=[__file__], carousel=carousel, rate=10_000_000)
        with self.assertRaises(treecast.TreecastError) as raised:
            sender.send_bytes("more", b"x")
        self.assertEqual(raised.exception.kind, "closed")
        self.assertIsNone(sender.wait(timeout=0.01))
        sender.stop()
        self.assertTrue(sender.wait(timeout=30).is_stopped)

    def test_bytes_are_not_copied_and_let_go(self):
        data = bytes(300_000)
        before = sys.getrefcount(data)
        with group() as sender:
            sent = sender.send_bytes("data", data)
            self.assertEqual(sys.getrefcount(data), before + 1)
            with join(sender):
                sent.wait()
                sender.close()
        gc.collect()
        self.assertEqual(sys.getrefcount(data), before)

    def test_mistakes_are_exceptions(self):
        for options, kind in [
            ({"interface": "nowhere0"}, "network"),
            ({"rate": "fast"}, "options"),
            ({"address": "odd"}, "options"),
            ({"compression": 20}, "options"),
            ({"rate": 1}, "options"),
            ({"wait_timeout": -1.0}, "options"),
            ({"key": "/no/such/key"}, "key"),
        ]:
            with self.assertRaises(treecast.TreecastError) as raised:
                treecast.Group(**options)
            self.assertEqual(raised.exception.kind, kind, options)
        with self.assertRaises(treecast.TreecastError) as raised:
            treecast.Receiver("no ticket")
        self.assertEqual(raised.exception.kind, "ticket")
        sender = group()
        for send in [lambda: sender.send_file("/no/such/file"), lambda: sender.send_bytes("../x", b"")]:
            with self.assertRaises(treecast.TreecastError) as raised:
                send()
            self.assertEqual(raised.exception.kind, "file")
        with self.assertRaises(TypeError):
            sender.send_bytes("text", "no bytes")
        self.assertIsNone(sender.next_event(timeout=0.01))
        waiting = sender.send_bytes("waiting", b"x")
        self.assertIsNone(waiting.wait(timeout=0.01))
        sender.stop()
        self.assertIsNotNone(waiting.wait().problem)

    def test_a_receiver_is_freed_while_it_asks(self):
        asked = threading.Event()

        def accept(offer):
            asked.set()
            time.sleep(0.1)
            return True

        sender = group()
        receiver = join(sender, accept=accept)
        sender.send_bytes("bytes", b"x")
        self.assertTrue(asked.wait(60))
        begin = time.monotonic()
        del receiver
        gc.collect()
        self.assertLess(time.monotonic() - begin, 30)

    def test_asyncio_goes_on_meanwhile(self):
        async def main():
            sender = group()
            receiver = join(sender)
            sent = sender.send_bytes("bytes", b"x")
            done, ticks = asyncio.ensure_future(asyncio.to_thread(sent.wait)), 0
            while not done.done():
                ticks += 1
                await asyncio.sleep(0.001)
            sender.close()
            report = await asyncio.to_thread(receiver.wait)
            return done.result().is_complete() and report.is_complete() and ticks > 0

        self.assertTrue(asyncio.run(main()))

    def test_the_types_name_what_there_is(self):
        stub = pathlib.Path(treecast.__file__).with_name("_treecast.pyi")
        for node in ast.parse(stub.read_text()).body:
            if not isinstance(node, ast.ClassDef):
                continue
            there = getattr(_treecast, node.name)
            for member in node.body:
                if isinstance(member, ast.FunctionDef):
                    self.assertTrue(hasattr(there, member.name), (node.name, member.name))
                    arguments = [one.arg for one in member.args.args + member.args.kwonlyargs]
                    if not member.name.startswith("__") and len(arguments) > 1:
                        real = list(inspect.signature(getattr(there, member.name)).parameters)
                        self.assertEqual(real, arguments, (node.name, member.name))
                elif isinstance(member, ast.AnnAssign) and node.name != "TreecastError":
                    self.assertTrue(hasattr(there, member.target.id), (node.name, member.target.id))
        self.assertEqual(sorted(treecast.__all__), sorted(set(dir(_treecast)) - {n for n in dir(_treecast) if n[0] == "_"}))


if __name__ == "__main__":
    unittest.main()
