#!/usr/bin/env bash
# Formats, lints and tests changed packages, and tests the packages that depend on
# them with -short. Changed packages have uncommitted changes or commits that BASE does not have
# (default: the upstream branch; without one the last commit). Tests that start whole
# stacks run only in `make test`.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
module=$($go list -m)
base=${BASE:-$(git rev-parse --verify --quiet '@{upstream}' || git rev-parse 'HEAD~1')}
mapfile -t files < <({ git diff --name-only --diff-filter=d "$base"; git ls-files --others --exclude-standard; } | sort -u)
go_files=()
for f in "${files[@]}"; do
	case $f in devserver/* | tools/*) ;; *testdata*) ;; *.go) go_files+=("$f") ;; esac
done
if [ ${#go_files[@]} = 0 ]; then
	echo "No Go file has changed since ${base:0:12}."
	exit 0
fi
unformatted=$(gofmt -l "${go_files[@]}")
[ -z "$unformatted" ] || { gofmt -w $unformatted && echo "Formatted: $unformatted"; }

mapfile -t changed < <(printf '%s\n' "${go_files[@]}" | xargs -n1 dirname | sort -u)
printf 'Changed: %s\n' "${changed[*]}"
./bin/golangci-lint run "${changed[@]/#/./}"

# All packages whose code or tests import a changed package, directly or indirectly. Those with
# the most dependencies come first: their tests take the longest.
targets=$(printf "$module/%s\n" "${changed[@]}")
mapfile -t packages < <(
	$go list -test -deps=false -f '{{if .ForTest}}{{.ForTest}}{{else}}{{.ImportPath}}{{end}} {{join .Deps " "}}' ./... |
		awk -v targets="$targets" '
			BEGIN { n = split(targets, t, "\n"); for (i = 1; i <= n; i++) want[t[i]] = 1 }
			{ name = $1; sub(/\.test$/, "", name); sub(/_test$/, "", name)
			  for (i = 1; i <= NF; i++) { d = $i; sub(/ .*/, "", d); if (d in want) { print NF, name; next } }
			  if (name in want) print NF, name }' | sort -rn | awk '!seen[$2]++ { print $2 }' | grep -vE '/test/(e2e|chaos|browser|gitea|stay|showcase|deploy)$|/internal/devstack$'
)
[ ${#packages[@]} -gt 0 ] || exit 0
mapfile -t dependents < <(printf '%s\n' "${packages[@]}" | grep -vxFf <(printf '%s\n' $targets))
mapfile -t packages < <(printf '%s\n' "${packages[@]}" | grep -xFf <(printf '%s\n' $targets))

# Some packages wait more than they work, hence one more at once than there are processors.
tests() {
	./scripts/tmpfs.sh ./bin/gotestsum --format pkgname --format-hide-empty-pkg -- \
		-vet=off -ldflags='-s -w' -timeout 10m -p $(($(nproc) + 1)) "$@"
}
[ ${#packages[@]} = 0 ] || tests "${packages[@]}"
if [ ${#dependents[@]} -gt 0 ]; then
	printf 'Testing %d packages that depend on them, without tests that take long.\n' ${#dependents[@]}
	tests -short "${dependents[@]}"
fi
