#!/usr/bin/env bash
# Runs the stages of `make test` that are given as arguments, or all of them. Prints
# the duration of each stage and, at the end, the slowest 20 tests. Stops at the
# first stage that fails. If at most eight tests of a stage fail (with subtests), they run once more; a
# test that passes then is listed at the end as flaky.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$PWD/bin
go=${GO:-go}
records=$(mktemp -d) # what gotestsum writes of each stage, for the table
trap 'rm -rf "$records"' EXIT

# Tests that start whole stacks wait most of the time, so more of them run at once than
# there are processors; those of test/chaos wait for faults beside those of test/e2e.
stacks='/test/(e2e|chaos|browser|gitea|stay)$|/internal/devstack$'

# Lint has vetted the tests already, and nobody debugs these binaries.
lean='-vet=off -ldflags=-w'

at_once=5

# Collecting garbage less often takes memory and saves a tenth of the processor time
# of processes that live for seconds.
export GOGC=${GOGC:-400}

# What make build made; the tests need not build it again.
export RGPT_BIN_DIR=$bin

tmpfs=() # stacks use the disk: directories of failed tests are kept
tests() { # NAME PACKAGES ARGUMENTS…: go test, with a summary
	local name=$1 packages=$2
	shift 2
	"${tmpfs[@]}" "$bin/gotestsum" --format pkgname --format-hide-empty-pkg --jsonfile "$records/$name.json" \
		--rerun-fails=1 --rerun-fails-max-failures=8 --rerun-fails-run-root-test --rerun-fails-abort-on-data-race \
		--rerun-fails-report "$records/$name.flaky" --packages "$packages" -- "$@"
}

stage_generated() { ./scripts/generated.sh; }
stage_lint() { make --no-print-directory lint; }
stage_vulnerabilities() { ./scripts/vulnerabilities.sh; }
stage_devserver() { (cd devserver && tests devserver ./... $lean -tags "${DEVSERVER_TAGS:-}" -timeout 15m); }
stage_unit() { local tmpfs=(./scripts/tmpfs.sh) && tests unit "$($go list ./... | grep -vE "$stacks" | tr '\n' ' ')" $lean -timeout 30m; }
stage_stacks() { tests stacks "./test/e2e ./test/chaos ./internal/devstack ./test/gitea ./test/stay" $lean -count=1 -timeout 55m -p 2 -parallel $at_once; }
stage_browser() { tests browser ./test/browser $lean -count=1 -timeout 10m -run TestPagesKeepTheirStateAcrossRefreshes; }

stages=("$@")
[ ${#stages[@]} -gt 0 ] || stages=(generated lint vulnerabilities devserver unit stacks browser)
times=()
finish() {
	printf '\n%-18s %s\n' "Stage" "Seconds"
	printf '%s\n' "${times[@]}"
	if cat "$records"/*.flaky 2>/dev/null | grep -q .; then
		printf '\nFlaky: failed, then rerun (report each, they hide real races):\n'
		cat "$records"/*.flaky
	fi
	if compgen -G "$records/*.json" >/dev/null; then
		printf '\nThe slowest tests:\n'
		cat "$records"/*.json | "$bin/gotestsum" tool slowest --threshold 1s --num 20 2>/dev/null |
			sed 's#github.com/rocketgpt/orchestrator/##' || true
	fi
}
for stage in "${stages[@]}"; do
	printf '\n== %s\n' "$stage"
	began=$SECONDS
	"stage_$stage" || {
		times+=("$(printf '%-18s %5d  failed' "$stage" $((SECONDS - began)))")
		finish
		exit 1
	}
	times+=("$(printf '%-18s %5d' "$stage" $((SECONDS - began)))")
done
finish
