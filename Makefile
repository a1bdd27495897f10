# The commands of README.md. Each installs what it lacks (scripts/setup.sh) and needs root.

# Where rustup puts cargo when it has just been installed.
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH):/usr/sbin:/sbin

TREECAST := target/release/treecast
OUT ?= out/demo
PACKAGES ?= out/packages
MACHINES := x86_64 aarch64
export PYTHON ?= python3
# Most tests wait for packets, and not for a processor.
export RUST_TEST_THREADS ?= 4
# The file that the demo delivers: `make demo FILE=path`.
FILE ?= $(TREECAST)

# Routing tables, relations between ASes and delegations for the page of `make rib`, such as RIB="rib.bz2 as-relationships-*.xz".
RIB ?=

.PHONY: demo test bench lint audit fuzz rib spark package build setup clean

demo: build
	$(TREECAST) lab run labs/matrix.toml --out $(OUT)/matrix
	$(TREECAST) lab run labs/librecast/demo.toml --set file=$(FILE) --out $(OUT)
	@echo "reports: $(OUT)/matrix/report.html $(OUT)/report.html"

test:
	scripts/setup.sh test
	cargo test --workspace --locked --no-fail-fast

bench: build
	scripts/setup.sh bench
	$(TREECAST) bench
	$(TREECAST) bench load

lint:
	scripts/setup.sh lint
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
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
# starts in an initramfs, too. `make test` installs, uses and purges the first of them.
package: build
	scripts/setup.sh package
	scripts/package.sh deb $(TREECAST) $(PACKAGES)
	scripts/package.sh wheel $(TREECAST) $(PACKAGES)
	set -e; for machine in $(MACHINES); do scripts/musl.sh $$machine; scripts/package.sh tar $(TREECAST) $(PACKAGES) $$machine; done

build: setup
	cargo build --release --locked -p treecast-cli

setup:
	@scripts/setup.sh

clean:
	cargo clean
	rm -rf out
