package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/tester"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// TestOptions configure RunTests.
type TestOptions struct {
	// Out gets the report, as of opa test.
	Out io.Writer
	// JSON makes the report one JSON document.
	JSON bool
	// Verbose lists the tests that passed.
	Verbose bool
	// Run is a regular expression: only tests whose names it matches run. Empty: all.
	Run string
}

// RunTests runs OPA's tests in a directory of the operator's or a repository's policies, and reports
// whether all passed. The built-in bundles are loaded too, so that policies and tests can import
// them. An error means that the tests could not run.
func RunTests(ctx context.Context, dir string, o TestOptions) (passed bool, err error) {
	modules, err := testModules(dir)
	if err != nil {
		return false, fault.Wrap(err, contract.ClassHuman, contract.CodeInvalidConfig, "the tests of the policies in %s cannot run", dir)
	}
	c := ast.NewCompiler().WithStrict(true).WithCapabilities(capabilities()).WithEnablePrintStatements(true).WithDefaultRegoVersion(ast.RegoV1)
	results, err := tester.NewRunner().SetCompiler(c).CapturePrintOutput(true).RaiseBuiltinErrors(true).SetTimeout(DefaultTimeout).
		SetParallel(1).Filter(o.Run).SetModules(modules).RunTests(ctx, nil)
	if err != nil {
		return false, fault.Wrap(shortened(err), contract.ClassHuman, contract.CodeInvalidConfig, "the tests of the policies in %s cannot run", dir)
	}
	passed = true
	var all []*tester.Result
	for r := range results {
		passed = passed && (r.Pass() || r.Skip)
		all = append(all, r)
	}
	if len(all) == 0 {
		return false, fault.New(contract.ClassHuman, contract.CodeInvalidConfig, "found no tests in %s; rules of tests begin with test_", dir)
	}
	slices.SortStableFunc(all, func(a, b *tester.Result) int {
		return strings.Compare(fmt.Sprint(a.Location, a.Name), fmt.Sprint(b.Location, b.Name))
	})
	return passed, report(all, o)
}

func report(all []*tester.Result, o TestOptions) error {
	if o.JSON {
		encoder := json.NewEncoder(o.Out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(map[string]any{"tests": all})
	}
	results := make(chan *tester.Result, len(all))
	for _, r := range all {
		results <- r
	}
	close(results)
	return tester.PrettyReporter{Output: o.Out, Verbose: o.Verbose, FailureLine: true}.Report(results)
}

// testModules reads a directory's policies and tests, and the built-in bundles.
func testModules(dir string) (map[string]*ast.Module, error) {
	given, err := Load(dir, true)
	if err != nil {
		return nil, err
	}
	own, err := allBuiltIn()
	if err != nil {
		return nil, err
	}
	all, err := parse(own, "", nil)
	if err != nil {
		return nil, err
	}
	for _, m := range given {
		parsed, err := parseOne(m)
		if err != nil {
			return nil, err
		}
		if !strings.HasSuffix(m.Name, testSuffix) {
			if err := checkEither(parsed); err != nil {
				return nil, err
			}
		}
		all[m.Name] = parsed
	}
	return all, nil
}

// checkEither checks a module of the operator or of a repository.
func checkEither(m *ast.Module) error {
	if strings.HasPrefix(m.Package.Path.String()+".", "data."+Repository+".") {
		return checkNames(m, Repository, repositoryRules)
	}
	return checkNames(m, Operator, operatorRules)
}
