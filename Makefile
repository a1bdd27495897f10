# The commands of README.md. Each installs what it lacks (scripts/setup.sh) and needs root.

# Where rustup puts cargo when it has just been installed.
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH):/usr/sbin:/sbin

TREECAST := target/release/treecast
OUT ?= out/demo
# The file that the demo delivers: `make demo FILE=path`.
FILE ?= $(TREECAST)

.PHONY: demo test bench lint audit fuzz build setup clean

demo: build
	$(TREECAST) lab run labs/matrix.toml --out $(OUT)/matrix
	$(TREECAST) lab run labs/librecast/demo.toml --set file=$(FILE) --out $(OUT)
	@echo "reports: $(OUT)/matrix/report.html $(OUT)/report.html"

test:
	scripts/setup.sh test
	cargo test --workspace --locked

bench: build
	scripts/setup.sh bench
	$(TREECAST) bench

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

build: setup
	cargo build --release --locked -p treecast-cli

setup:
	@scripts/setup.sh

clean:
	cargo clean
	rm -rf out
