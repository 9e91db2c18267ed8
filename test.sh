#!/usr/bin/env bash
# Runs all tests, or the Python suites that are named: ./test.sh [SUITE...] [pytest options]
#
#   ./test.sh                         everything: Rust, the C number core, the clients, all Python suites
#   ./test.sh differential -k zset    one suite, with pytest's options. The suites: differential clients
#                                     robustness concurrency dumps startup memory terminal durability metrics
#                                     pages replication upgrade packed web console archive tiering
#
# Needs Rust, a C compiler and python3; a JDK and Maven for the Java client, which is skipped without; what
# clients/c/apt-packages.txt names for the C client, parts of whose tests are left out without. What else the
# tests need goes to .test-env, which git ignores.
#
# MANTISSA_BINARY      test this program and build nothing
# MANTISSA_PROFILE     the cargo profile of the server under test (default: fast)
# MANTISSA_SUBJECT     `oracle` runs the suites with redis-server on both sides
# MANTISSA_TEST_SEED   the seed of this run, or `random`
# MANTISSA_TEST_EPISODES   how long the generated streams are
#
# The Python suites run in two processes for each core, from nine cores on in one: tests often wait. `-n 0`
# runs them in one. Without arguments the clients' tests run beside them; what those print comes at the end.
set -euo pipefail
cd "$(dirname "$0")"

environment=$PWD/.test-env
suites="differential clients robustness concurrency dumps startup memory terminal durability metrics pages"
suites="$suites replication upgrade packed web console archive tiering"

# Where nothing was compiled before, as on a fresh machine, incremental compilation costs time and room.
if [ ! -d "${CARGO_TARGET_DIR:-target}/fast/incremental" ]; then
    export CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0}
fi

say() { printf '\n== %s (after %d s)\n' "$*" "$SECONDS"; }

# The Python environment with a real redis-server, made once and again when the list of packages changes.
prepare_python() {
    if cmp -s tests/requirements.txt "$environment/requirements.txt"; then return; fi
    say "setting up $environment"
    rm -rf "$environment"
    if python3 -c 'import venv, ensurepip' 2>/dev/null; then
        python3 -m venv "$environment"
    elif python3 -m virtualenv --version >/dev/null 2>&1; then
        python3 -m virtualenv --quiet "$environment"
    else
        echo "test.sh: this python3 can make no environment with pip (module ensurepip is missing)." >&2
        echo "test.sh: install the system's package for it (Debian, Ubuntu: python3-venv) and run again." >&2
        exit 1
    fi
    "$environment/bin/python" -m pip install --quiet --disable-pip-version-check -r tests/requirements.txt
    cp tests/requirements.txt "$environment/requirements.txt"
}

# What the suites `replication` and `web` need of npm. Without npm it does without, and says so.
prepare_node() {
    if ! command -v npm >/dev/null || ! command -v node >/dev/null; then return; fi
    if cmp -s tests/npm/package-lock.json "$environment/package-lock.json"; then return; fi
    say "npm ci in $environment"
    cp tests/npm/package.json tests/npm/package-lock.json "$environment"
    if ! npm ci --prefix "$environment" --silent --no-audit --no-fund; then
        rm -f "$environment/package-lock.json"
        echo "test.sh: npm could not install what tests/npm/package.json names; going on without" >&2
    fi
}

# The program under test; MANTISSA_BINARY tells the suites where it is. Arguments tell cargo what to build.
build_server() {
    if [ -n "${MANTISSA_BINARY:-}" ] || [ "${MANTISSA_SUBJECT:-}" = oracle ]; then return; fi
    local profile=${MANTISSA_PROFILE:-fast}
    if [ $# -eq 0 ]; then set -- --package mantissa; fi
    say "cargo build --profile $profile $*"
    cargo build --profile "$profile" "$@"
    local folder=$profile
    if [ "$profile" = dev ]; then folder=debug; fi
    export MANTISSA_BINARY=${CARGO_TARGET_DIR:-$PWD/target}/$folder/mantissa
}

run_python() {
    prepare_python
    prepare_node
    build_server
    # 20,000 connections need as many open files, on both sides.
    ulimit -n "$(ulimit -Hn)" || true
    local processes
    processes=$(nproc)
    if [ "$processes" -le 8 ]; then processes=$((2 * processes)); fi
    say "pytest $*"
    "$environment/bin/python" -m pytest -n "$processes" --dist worksteal "$@"
}

# What mostly compiles or waits, one after the other; the first failure ends it.
run_clients() {
    say "the C client"
    clients/c/run_tests
    say "the Java client"
    clients/java/run_tests
    say "the ticker, from C++ to Java"
    examples/ticker/run 200000
}

# A test beside the server gives dependencies the features that they have for the unit tests, so that they are
# compiled already: 125 s instead of 156 on two cores (2026-11-30).
server_and_test=(--workspace --bin mantissa --test tidy)

compile_the_rest() {
    if [ -f number/Makefile ]; then
        say "make -C number test"
        make -C number -j "$(nproc)" --output-sync=target test
    fi
    build_server "${server_and_test[@]}"
}

# Waits for what runs in the background and shows what it has printed. Ends if it has failed.
await() {
    local status=0
    wait "$1" || status=$?
    cat "$2"
    if [ "$status" -ne 0 ]; then exit "$status"; fi
}

chosen=()
options=()
for word in "$@"; do
    case " $suites " in
    *" $word "*)
        # A word after options belongs to them: -k sets.
        if [ ${#options[@]} -eq 0 ]; then chosen+=("tests/$word"); else options+=("$word"); fi
        ;;
    *) options+=("$word") ;;
    esac
done

if [ ${#chosen[@]} -eq 0 ] && [ ${#options[@]} -eq 0 ]; then
    # What is fetched is fetched while others compile.
    prepared=$(mktemp)
    compiled=$(mktemp)
    shown=$(mktemp)
    compiling=
    clients=
    trap 'rm -f "$prepared" "$compiled" "$shown"
        kill $preparing $compiling $clients 2>/dev/null || true' EXIT
    (prepare_python; prepare_node) >"$prepared" 2>&1 &
    preparing=$!
    # With the dependencies of the server that the Python suites test.
    unit_tests=(cargo test --workspace --profile fast --config "$(tests/unoptimised)" --no-fail-fast)
    say "cargo test --workspace"
    "${unit_tests[@]}" --no-run
    # Tests often wait: others compile meanwhile.
    compile_the_rest >"$compiled" 2>&1 &
    compiling=$!
    "${unit_tests[@]}"
    await "$compiling" "$compiled"
    compiling=
    await "$preparing" "$prepared"
    preparing=
    build_server "${server_and_test[@]}"
    run_clients >"$shown" 2>&1 &
    clients=$!
    # Both are run to their end.
    failed=()
    set +e
    (set -e && run_python tests)
    [ $? -eq 0 ] || failed+=("the Python suites")
    wait "$clients" || failed+=("the clients' tests")
    set -e
    cat "$shown"
    if [ ${#failed[@]} -gt 0 ]; then
        printf -v names '%s, ' "${failed[@]}"
        say "failed: ${names%, }"
        exit 1
    fi
    say "all passed"
    exit
fi
if [ ${#chosen[@]} -eq 0 ]; then chosen=(tests); fi
run_python "${chosen[@]}" ${options[@]+"${options[@]}"}
