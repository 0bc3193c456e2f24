package verify

import (
	"context"
	"maps"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/pin"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// Proof lists the new tests that do not need the change that added them.
type Proof struct {
	// Unproven are the tests that passed or did not run without the change.
	Unproven []Unproven
	// Log is the output of the commands; of a long output, the head and the tail.
	Log []byte
	// Duration is wall time.
	Duration time.Duration
}

// Unproven is a new test that did not fail without the change. Why completes "TestLogin …".
type Unproven struct {
	Test pin.Added
	Why  string
}

// Reasons why a test is not proven.
const (
	passesAnyway  = "also passes without the change"
	skippedAnyway = "is skipped without the change"
	notRunAnyway  = "did not run without the change, although no command failed"
)

// Prove runs new tests on a checkout that has the test files of a change, but not the rest of the
// change: a test that does not fail there does not test the change. Only these tests run if their
// runner can select them, otherwise only their files or packages; a command from the settings or a
// script runs unchanged.
//
// A test that does not compile or load there has failed, because it needs the change. The same
// applies to a test that no runner finds. If a command failed and its results do not include the
// test, this counts as a failure of the test: an unknown result gets the benefit of the doubt.
// Failed tests do not run again.
//
// Like [Run], it writes into the checkout. An error means that it could not be completed.
func Prove(ctx context.Context, root string, tests []pin.Added, env Env) (Proof, error) {
	env.Settings.Shards, env.Settings.RerunFailed = 1, 0
	env.Settings.Recordings = checks.RecordOff // it can make a test fail, which would count as a proof
	r, err := prepare(root, env, func(p checks.Pipeline) (checks.Job, error) {
		return checks.Job{Check: contract.Check{ID: contract.CheckNewTests, Category: contract.CategoryTest}, Invocations: p.TestRuns()}, nil
	})
	if err != nil {
		return Proof{}, err
	}
	defer r.dir.Close()
	seen, err := r.prove(ctx, tests)
	out := Proof{Log: []byte(output.Clean(string(r.log.Bytes()))), Duration: time.Since(r.started)}
	for _, t := range tests {
		if why := seen[t]; why != "" {
			out.Unproven = append(out.Unproven, Unproven{t, why})
		}
	}
	return out, err
}

// prove runs the commands that contain the tests and returns the unproven tests with the reasons.
// If several commands run a test, a failure in one of them proves it.
func (r *run) prove(ctx context.Context, tests []pin.Added) (map[pin.Added]string, error) {
	seen, proven := map[pin.Added]string{}, map[pin.Added]bool{}
	for _, inv := range r.job.Invocations {
		inv, covered, err := r.narrow(ctx, inv, tests)
		if err != nil {
			return nil, err
		}
		if len(covered) == 0 {
			continue
		}
		e, err := r.execute(ctx, inv)
		if err != nil {
			return nil, err
		}
		for _, t := range covered {
			seen[t] = e.unproven(t)
			proven[t] = proven[t] || seen[t] == ""
		}
	}
	maps.DeleteFunc(seen, func(t pin.Added, _ string) bool { return proven[t] })
	return seen, nil
}

// narrow restricts a command to the given tests and returns the tests that it runs: none if it runs
// none of them or its tool is not installed.
func (r *run) narrow(ctx context.Context, inv checks.Invocation, tests []pin.Added) (checks.Invocation, []pin.Added, error) {
	inv, ok, err := r.choose(ctx, inv)
	if err != nil || !ok {
		return inv, nil, err
	}
	if inv.Only == nil {
		return inv, tests, nil
	}
	inv, covered := inv.Only(tests)
	return inv, covered, nil
}

// unproven returns the reason why the outcome of a command does not prove a test, or "" if it does.
func (e *execution) unproven(t pin.Added) string {
	var passed, skipped bool
	for _, c := range e.casesOf(t) {
		switch {
		case c.Status == contract.TestFailed && e.failed():
			return ""
		case c.Status == contract.TestSkipped:
			skipped = true
		default: // a failure that the exit code does not show does not count
			passed = true
		}
	}
	switch {
	case e.interruption() != "":
		return ""
	case passed:
		return passesAnyway
	case skipped:
		return skippedAnyway
	case e.failed():
		return ""
	case e.counted:
		return notRunAnyway
	}
	return passesAnyway // a command that names no tests and succeeded
}

// casesOf returns the cases of a test: the cases with exactly its name if there are any, otherwise
// the cases whose names end with it ("it adds" is not the same test as "adds").
func (e *execution) casesOf(t pin.Added) []output.Case {
	var all, exact []output.Case
	for _, c := range e.Parsed.Cases {
		if !e.isOf(c, t) {
			continue
		}
		all = append(all, c)
		if strings.HasPrefix(dividers.Replace(c.Name), dividers.Replace(output.Name(checks.WithoutNumber(t.Name)))) {
			exact = append(exact, c)
		}
	}
	if len(exact) > 0 && !strings.HasSuffix(t.Path, ".go") {
		return exact
	}
	return all
}

// dividers are the separators in test names.
var dividers = strings.NewReplacer(" › ", " > ", "::", ".")

// isOf reports whether a case belongs to a test according to its name: the test itself, a subtest,
// or one of its parameters.
func (e *execution) isOf(c output.Case, t pin.Added) bool {
	if strings.HasSuffix(t.Path, ".go") {
		dir := output.Paths{GoDirs: e.Invocation.GoDirs}.GoDir(c.Group)
		return (dir == "" || dir == path.Dir(t.Path)) && isOfGo(c, t)
	}
	if c.File != "" && c.File != t.Path {
		return false
	}
	wanted, got := dividers.Replace(output.Name(checks.WithoutNumber(t.Name))), dividers.Replace(c.Name)
	for from := 0; wanted != ""; {
		at := strings.Index(got[from:], wanted)
		if at < 0 {
			return false
		}
		at += from
		before, after := got[:at], got[at+len(wanted):]
		if (before == "" || endsPart.MatchString(before)) && (after == "" || startsPart.MatchString(after)) {
			return true
		}
		from = at + 1
	}
	return false
}

var (
	endsPart   = regexp.MustCompile(`(> |\.| |/)$`)
	startsPart = regexp.MustCompile(`^( > |\[| \()`)
)

// isOfGo reports whether a case belongs to a Go test. A suite runs under the name of a test that
// only the suite defines.
func isOfGo(c output.Case, t pin.Added) bool {
	test := checks.WithoutNumber(t.Name)
	got := c.Test
	if t.Suite {
		_, test, _ = strings.Cut(test, "/")
		_, got, _ = strings.Cut(got, "/")
	}
	return got == test || strings.HasPrefix(got, test+"/")
}
