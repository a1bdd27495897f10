"""Tests of the package treecast. The test programs.rs runs them."""

import _thread
import ast
import asyncio
import gc
import inspect
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings

import treecast
from treecast import _treecast

KEY = "tck1.ANago1m8WJu2mDfQHMV28WV25Tqgw6sGiSw81_Da2wBAx2xv"

# A program that ends while a session calls its function, with the receiver alive or not.
ENDS = """
import threading, time, treecast
asked = threading.Event()
def function(given):
    if not asked.is_set():
        print("asked", flush=True)
    asked.set()
    time.sleep(0.2)
    return True
sender = treecast.Group(interface="lo", rate="max")
receiver = treecast.Receiver(sender.ticket, interface="lo", {function}=function)
for number in range(50):
    sender.send_bytes(str(number), b"x")
asked.wait(60)
{holds}
"""

# A child that was forked ends in order, and its parent goes on.
FORKS = """
import os, sys, treecast
sender = treecast.Group(interface="lo", rate="max")
receiver = treecast.Receiver(sender.ticket, interface="lo", accept=lambda offer: True)
sender.send_bytes("before", b"x")
child = os.fork()
if child == 0:
    sys.exit(0)
status = os.waitpid(child, 0)[1]
sender.send_bytes("after", b"x")
sender.close()
print(status, receiver.wait().objects)
"""


def group(**options):
    return treecast.Group(interface="lo", **options)


def join(sender, **options):
    return treecast.Receiver(sender.ticket, interface="lo", **options)


class Package(unittest.TestCase):
    def test_a_group_sends_and_a_receiver_chooses(self):
        with group(rate="max", retx_factor=10, compress=3, stall_limit="2m", at_once=8) as sender:
            receiver = join(sender, accept=lambda offer: offer.name != "refused", name="chooser")
            wanted = sender.send_bytes("wanted", b"bytes" * 1000, retx_factor=2)
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

        with group(wait=1) as sender:
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
            ({"paths": [__file__], "delta": True, "compress": 3}, "options"),
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
            ({"group": "odd"}, "options"),
            ({"compress": 20}, "options"),
            ({"rate": 1}, "options"),
            ({"wait_timeout": -1.0}, "options"),
            ({"stall_limit": 9}, "options"),
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

    def test_python_ends_while_sessions_call_functions(self):
        for function in ["accept", "on_event"]:
            cycle = "cycle = [receiver]; cycle.append(cycle); del receiver, cycle"
            for holds in ["keep = receiver", cycle, "del receiver", "raise SystemExit"]:
                script = ENDS.format(function=function, holds=holds)
                done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
                self.assertEqual((done.returncode, done.stderr, done.stdout), (0, "", "asked\n"), (function, holds))

    def test_a_function_drops_the_last_receiver_and_cannot_wait(self):
        kinds, over, ready, held = [], threading.Event(), threading.Event(), []

        def on_event(event):
            if event.kind != "received":
                return
            for call in [lambda: held[0].wait(), lambda: held[0].next_event(), lambda: held[0].next_batch(60)]:
                try:
                    call()
                except treecast.TreecastError as error:
                    kinds.append(error.kind)
            begin = time.monotonic()
            held.clear()
            gc.collect()
            kinds.append(time.monotonic() - begin < 2)
            over.set()

        with group() as sender:
            # The function may run before the receiver is there.
            joined = join(sender, on_event=lambda event: (ready.wait(60), on_event(event)))
            held.append(joined)
            del joined
            ready.set()
            sender.send_bytes("object", b"x")
        self.assertTrue(over.wait(60))
        self.assertEqual(kinds, ["deadlock"] * 3 + [True])

    def test_a_child_that_was_forked_leaves_sessions_alone(self):
        with group() as sender:
            receiver, sent = join(sender), sender.send_bytes("before", b"x")
            for _ in range(5):
                child = os.fork()
                if child == 0:
                    refused = 0
                    calls = [
                        sender.progress, sender.stop, sender.wait, sender.next_event, sender.wait_for_room, sent.wait,
                        receiver.wait, receiver.leave, receiver.next_event, lambda: receiver.next_batch(9),
                        lambda: sender.send_bytes("child", b"x"),
                    ]  # fmt: skip
                    for call in calls:
                        try:
                            call()
                        except treecast.TreecastError as error:
                            refused += error.kind == "closed"
                    del sender, receiver, sent, calls, call
                    gc.collect()
                    os._exit(refused)
                self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 11)
            sender.send_bytes("after", b"y")
        came = {event.name: event.data for event in receiver if event.kind == "received"}
        self.assertEqual(came, {"before": b"x", "after": b"y"})
        self.assertTrue(receiver.wait().is_complete())

    def test_a_child_that_ends_in_order_leaves_sessions_alone(self):
        done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=120)
        self.assertEqual((done.returncode, done.stderr, done.stdout), (0, "", "0 2\n"))

    def test_each_keyword_refuses_what_it_cannot_be(self):
        ticket = group().ticket
        text = ["\ud800", 7, b"x", ["x"]]
        times = [-1.0, float("nan"), float("inf"), 1e300, "x"]
        counts = [-1, 2**64, 1.5, "x"]
        tables = [
            (treecast.Group, {
                "interface": [*text, "nowhere0"], "wait": [*counts, 0], "wait_timeout": times,
                "rate": [-1, 0, 1, 2**64, 1.5, "fast", b"max"], "retx_factor": [-1, float("nan"), float("inf"), 1e7, "x"],
                "retx_minimum": times, "group": [*text, "odd", "", "10.0.0.1"], "port": [*counts, 65536],
                "fanout": [*text, "pigeon", ""], "plain": ["yes", 1], "key": [*text, "/no/such/key"],
                "allow": [7, b"x", "/no/such/list"], "compress": [0, 20, -(2**31), 2**31, "x"],
                "most_outstanding": counts, "paths": ["text", [7], ["/no/such/path"]],
                "feed_folder": [7, "/no/such/folder"], "delta": ["yes"], "session": [7, "/no/such/folder/x"],
                "carousel": [True, {}, "x"], "announce": [*text, "a\nb", "x" * 65],
                "to_standing": [*text, "lab1,lab1"], "code": ["yes"], "no_such_keyword": [1],
            }),
            (lambda **options: treecast.Receiver(ticket, **options), {
                "into": [7], "interface": text, "name": text, "key": [*text, "/no/such/key"],
                "connect_timeout": times, "reconnect": times, "old": [7], "max_files": counts, "max_bytes": counts,
                "keep_existing": ["yes"], "secure": ["yes"], "no_such_keyword": [1],
            }),
            (lambda **options: treecast.CarouselOptions(**options), {"loops": counts, "idle": times}),
            (lambda **options: treecast.discover(**{"time": 0, **options}), {
                "time": times, "interfaces": ["lo", [7], ["nowhere0"]],
            }),
            (lambda **options: treecast.ask_code(**{"code": "no", **options}), {
                "code": ["", "\ud800", 7, "one-two"], "time": times, "interfaces": ["lo", [7]],
            }),
            (lambda **options: treecast.StandingRule(**{"senders": [KEY], "into": ".", **options}), {
                "senders": [[], ["odd"], "odd", 7], "into": [7, None], "session": [*text, "["],
                "owner": [*text, "no-such-user"], "keep_existing": ["yes"], "hidden": ["yes"], "max_files": counts,
                "max_bytes": counts, "max_time": times, "command": ["true", [7]], "command_time": times,
                "audience": [*text, "friends"], "in_order": ["yes"], "no_such_keyword": [1],
            }),
            (lambda **options: treecast.Standing(**{"state": "/dev/null/x", "rules": [], **options}), {
                "state": [7, "/dev/null/x"], "rules": [None, [7], 7], "key": [*text, "/no/such/key"], "name": text,
                "interfaces": ["lo", [7]], "at_once": counts, "no_such_keyword": [1],
            }),
        ]  # fmt: skip
        for call, table in tables:
            for keyword, values in table.items():
                for value in values:
                    with self.subTest(keyword=keyword, value=value):
                        with self.assertRaises((treecast.TreecastError, TypeError, ValueError, OverflowError)):
                            call(**{keyword: value})

    def test_each_method_refuses_what_it_cannot_be(self):
        sender = group()
        receiver = join(sender)
        calls = [
            lambda: sender.send_file(7), lambda: sender.send_file("/no/such/file"), lambda: sender.send_file(""),
            lambda: sender.send_file(__file__, name=""), lambda: sender.send_file(__file__, name="../x"),
            lambda: sender.send_file(__file__, name="\ud800"),
            lambda: sender.send_file(__file__, retx_factor=float("nan")),
            lambda: sender.send_file(__file__, no_such_keyword=1),
            lambda: sender.send_bytes("", b"x"), lambda: sender.send_bytes("x", None), lambda: sender.send_bytes(7, b"x"),
            lambda: sender.send_bytes("x", b"x", retx_factor=-1.0), lambda: sender.send_bytes("x", memoryview(b"x")[::2]),
            lambda: sender.next_event(-1), lambda: sender.next_event(float("nan")), lambda: sender.next_event("x"),
            lambda: sender.wait(-1), lambda: sender.wait(float("nan")), lambda: receiver.next_event(-1),
            lambda: receiver.next_batch(float("nan")), lambda: receiver.next_batch(None), lambda: receiver.wait(-1),
            lambda: treecast.Receiver(""), lambda: treecast.Receiver("\ud800"), lambda: treecast.Receiver("@/no/such/file"),
            lambda: treecast.Receiver(None), lambda: treecast.Delivery(), lambda: treecast.Transfer(),
        ]  # fmt: skip
        for number, call in enumerate(calls):
            with self.subTest(number=number):
                with self.assertRaises((treecast.TreecastError, TypeError, ValueError)):
                    call()
        sent = sender.send_bytes("x", b"x")
        for _ in range(2):
            sender.close()
        self.assertTrue(sent.wait(1e19).is_complete())
        for call in [lambda: sender.send_bytes("late", b"x"), lambda: sender.send_file(__file__)]:
            with self.assertRaises(treecast.TreecastError) as raised:
                call()
            self.assertEqual(raised.exception.kind, "closed")
        self.assertTrue(receiver.wait(1e19).is_complete() and sender.wait().is_complete())
        for call in [sender.wait, receiver.wait]:
            with self.assertRaises(treecast.TreecastError):
                call()
        sender.stop(), receiver.leave(), sender.wait_for_room()
        self.assertEqual(receiver.progress().objects, 1)

    def test_times_beyond_every_clock_count_as_very_long(self):
        with group(wait_timeout=1e19, retx_minimum=1e19, rate="max") as sender:
            receiver = join(sender, connect_timeout=1e19, reconnect=1e19)
            sender.send_bytes("x", b"x")
        self.assertTrue(receiver.wait().is_complete())

    def test_earlier_names_of_keywords_work_and_warn(self):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            with treecast.Group(
                interface="lo", wait_for=1, retransmission_factor=9, unicast=True, compression=3, address=None,
                admit=None, session_file=None,
            ) as sender, tempfile.TemporaryDirectory() as into:  # fmt: skip
                receiver = join(sender, folder=into)
                sender.send_bytes("x", b"x", factor=5)
                sender.close()
                self.assertTrue(receiver.wait().is_complete())
                self.assertEqual(pathlib.Path(into, "x").read_bytes(), b"x")
        self.assertEqual({one.category for one in said}, {DeprecationWarning})
        self.assertEqual(len(said), 9, [str(one.message) for one in said])

    def test_a_code_and_an_announcement_lead_to_the_ticket(self):
        with group(code=True, announce="images of today") as sender:
            self.assertEqual(treecast.ask_code(sender.code, interfaces=["lo"]), sender.ticket)
            while (event := sender.next_event()).kind != "code_given":
                pass
            found = []
            while not (found := [one for one in treecast.discover(time=1, interfaces=["lo"]) if one.ticket == sender.ticket]):
                pass
            self.assertEqual((found[0].name, found[0].sender[:5]), ("images of today", "tck1."))
            receiver = treecast.Receiver(found[0].ticket, interface="lo")
            sender.send_bytes("x", b"x")
        self.assertTrue(receiver.wait().is_complete())

    def test_a_standing_receiver_takes_what_its_rule_trusts(self):
        with tempfile.TemporaryDirectory() as folder:
            key, into, state = (os.path.join(folder, name) for name in ["sender.pem", "into", "state"])
            # A file of a key is made by a standing receiver, too.
            with treecast.Standing(os.path.join(folder, "key"), [treecast.StandingRule(senders=[KEY], into=into)]) as made:
                public = made.key
            os.rename(os.path.join(folder, "key", "key.pem"), key)
            rule = treecast.StandingRule(
                senders=[public], into=into, session="image*", accept=lambda offer: offer.name != "draft"
            )
            with treecast.Standing(state, [rule], name="lab1", interfaces=["lo"]) as standing:
                self.assertEqual(standing.next_event().kind, "started")
                with group(key=key, announce="images", to_standing=standing.key) as sender:
                    sender.send_bytes("draft", b"x")
                    sender.send_bytes("image", b"image")
                kinds = []
                while not kinds or kinds[-1] != "received":
                    event = standing.next_event(60)
                    kinds.append(event.kind)
                self.assertEqual((kinds, event.name, event.files), (["began", "received"], "images", 1))
                self.assertEqual(os.listdir(into), ["image"])
                standing.stop()
                self.assertEqual([event.kind for event in standing], ["stopped"])
                self.assertTrue(standing.wait())

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

    def test_the_examples_of_the_page_are_right(self):
        page = pathlib.Path(__file__).parents[3] / "docs" / "library.md"
        examples = [rest.split("\n```")[0] for rest in page.read_text().split("```python\n")[1:]]
        self.assertGreaterEqual(len(examples), 4)
        keywords = self.keywords()
        for example in examples:
            for node in ast.walk(ast.parse(example)):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                    name = node.func.attr
                    if isinstance(node.func.value, ast.Name) and node.func.value.id == "treecast":
                        self.assertTrue(hasattr(treecast, name), name)
                        known = keywords.get(name, [one.arg for one in node.keywords])
                        self.assertLessEqual({one.arg for one in node.keywords}, set(known), name)

    def keywords(self):
        """The keywords of each class, as the types have them."""
        stub = pathlib.Path(treecast.__file__).with_name("_treecast.pyi")
        found = {}
        for node in ast.parse(stub.read_text()).body:
            for member in node.body if isinstance(node, ast.ClassDef) else []:
                if isinstance(member, ast.FunctionDef) and member.name == "__new__":
                    found[node.name] = [one.arg for one in member.args.kwonlyargs]
        return found

    def test_classes_know_the_keywords_of_their_types(self):
        needed = {"Receiver": [""], "Standing": ["/dev/null/state", []]}
        for name, keywords in self.keywords().items():
            self.assertIn(name, ["CarouselOptions", "Group", "Receiver", "Standing", "StandingRule"])
            for keyword in keywords:
                # The last one of these cannot be used, so that nothing starts. The unknown one is told first.
                refused = {"Group": {"interface": "nowhere0"}}.get(name, {})
                try:
                    getattr(treecast, name)(*needed.get(name, []), **{keyword: None, **refused})
                except (treecast.TreecastError, TypeError) as error:
                    self.assertNotIn("unexpected keyword", str(error), (name, keyword))
                with self.assertRaises(TypeError):
                    getattr(treecast, name)(*needed.get(name, []), **{keyword + "_": None})

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
