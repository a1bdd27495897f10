# The commands of README.md. Each installs what it lacks (scripts/setup.sh) and needs root.

# Where rustup puts cargo when it has just been installed.
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH):/usr/sbin:/sbin

TREECAST := target/release/treecast
OUT ?= out/demo
PACKAGES ?= out/packages
MACHINES := x86_64 aarch64
MACHINE ?= $(shell uname -m)
export PYTHON ?= python3
# Most tests wait for packets, and not for a processor.
export RUST_TEST_THREADS ?= 8
# The file that the full demo delivers to 20 clients: `make demo FULL=1 FILE=path`.
FILE ?= $(TREECAST)
# 1 for the full demo.
FULL ?=

# Routing tables, relations between ASes and delegations for the page of `make rib`, such as RIB="rib.bz2 as-relationships-*.xz".
RIB ?=

.PHONY: demo test test-all style bench lint audit fuzz rib spark package build endpoint setup clean

# The first delivery after a few seconds, and all within two minutes. With FULL=1, every fanout with every repair, and a real file to 20
# clients in six ways: 10 minutes.
demo: build
ifeq ($(FULL),1)
	$(TREECAST) lab run labs/matrix.toml --out $(OUT)/matrix
	$(TREECAST) lab run labs/librecast/demo.toml --set file=$(FILE) --out $(OUT)
	@scripts/open-report.sh $(OUT)/matrix/report.html $(OUT)/report.html
else
	@echo "One sender, 12 receivers, three levels of routers, 2 % loss: all on this machine, each node in a network namespace of its own."
	@echo "Each line below is one delivery of a 2 MiB file. Each copy is compared with the source."
	$(TREECAST) lab run labs/demo.toml --out $(OUT)
	@scripts/open-report.sh $(OUT)/report.html
endif

# Senders keep the state of their sessions below this folder, and not in the user's.
test test-all: export XDG_STATE_HOME := $(CURDIR)/target/state

# What a change can break in daily work. The source is checked beside the tests of the command, which mostly wait.
test:
	scripts/setup.sh style
	scripts/setup.sh test
	scripts/test.sh

# The long tests, too: more seeds, more faults, and machines that start from packages. Before each release.
test-all: export TREECAST_LONG := 1
test-all:
	scripts/setup.sh style
	scripts/setup.sh test package initramfs
	scripts/test.sh --include-ignored

# The part of `make lint` that needs no network once the crates are there. A test checks licences and sources of the crates.
style:
	scripts/setup.sh style
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

bench: build
	scripts/setup.sh bench
	$(TREECAST) bench
	$(TREECAST) bench load

lint: style
	scripts/commit-titles.sh
	scripts/setup.sh lint
	cargo deny --all-features check --hide-inclusion-graph licenses bans sources

# Known vulnerabilities; apart from lint because it fetches the advisory database.
audit:
	scripts/setup.sh lint
	cargo deny check advisories

# Needs a nightly compiler, for the sanitizers.
fuzz:
	scripts/setup.sh fuzz
	scripts/fuzz.sh

# Tables 5.2 and 6.1, figures 5.3, 5.4 and 6.4 and equation 6.1 beside the paper's, of RIB (real) and of a synthetic internet.
rib: build
	$(TREECAST) rib synth --out $(OUT)/rib
	$(TREECAST) rib report $(OUT)/rib/synthetic-*.mrt $(OUT)/rib/synthetic-delegations.txt --known $(OUT)/rib/known.json
	$(TREECAST) rib report $(RIB) $(OUT)/rib/synthetic-*.mrt $(OUT)/rib/synthetic-delegations.txt --html $(OUT)/rib/page.html >$(OUT)/rib/report.txt
	@echo "page: $(OUT)/rib/page.html"

# Needs Java 17, and a Python with pyspark: `make spark PYTHON=venv/bin/python`.
spark: build
	scripts/check-spark.sh $(RIB)

# A Debian package and Python's wheel for this kind of machine, and for each kind a tar file whose program needs no libraries and
# starts in an initramfs, too. `make test-all` installs, uses and purges the first of them.
package: build
	scripts/setup.sh package
	scripts/package.sh deb $(TREECAST) $(PACKAGES)
	scripts/package.sh wheel $(TREECAST) $(PACKAGES)
	set -e; for machine in $(MACHINES); do scripts/musl.sh $$machine treecast; scripts/package.sh tar $(TREECAST) $(PACKAGES) $$machine; done

build: setup
	cargo build --release --locked -p treecast-cli

# send, receive, discover, keys, status and feed alone, for devices: one file that needs no libraries. MACHINE=aarch64 for another kind.
endpoint:
	MACHINE=$(MACHINE) scripts/setup.sh endpoint
	scripts/musl.sh $(MACHINE) treecast-endpoint

setup:
	@scripts/setup.sh

clean:
	cargo clean
	rm -rf out
