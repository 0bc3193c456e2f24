package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
)

// The rules that a bundle may define; each is a set of reasons, waive and lower of parts of findings.
const (
	ruleDeny        = "deny"
	ruleApproval    = "needs_approval"
	ruleInfo        = "info"
	ruleNoAutomerge = "no_automerge"
	ruleWaive       = "waive"
	ruleLower       = "lower"
	ruleReview      = "review"    // reasons to have the change reviewed by another model
	ruleAutomerge   = "automerge" // true or false, only of built-in bundles
)

// The rules of each source.
var (
	builtInRules    = []string{ruleDeny, ruleApproval, ruleInfo, ruleReview}
	operatorRules   = []string{ruleDeny, ruleApproval, ruleInfo, ruleReview, ruleNoAutomerge, ruleWaive, ruleLower}
	repositoryRules = []string{ruleDeny, ruleApproval, ruleInfo, ruleReview, ruleNoAutomerge}
)

// maxErrors is the number of mistakes that one error lists.
const maxErrors = 10

// parse parses modules. All must belong to the package root or one below it, unless root is empty,
// and define its rules as sets.
func parse(modules []Module, root string, rules []string) (map[string]*ast.Module, error) {
	out := make(map[string]*ast.Module, len(modules))
	var wrong []error
	for _, m := range modules {
		parsed, err := parseOne(m)
		if err == nil && root != "" {
			err = checkNames(parsed, root, rules)
		}
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		out[m.Name] = parsed
	}
	return out, errors.Join(wrong...)
}

func parseOne(m Module) (*ast.Module, error) {
	if !utf8.Valid(m.Content) {
		return nil, fmt.Errorf("%s:1: the file is not valid UTF-8", m.Name)
	}
	parsed, err := ast.ParseModuleWithOpts(m.Name, string(m.Content), ast.ParserOptions{
		Capabilities: capabilities(), RegoVersion: ast.RegoV1, ProcessAnnotation: false,
	})
	if err != nil {
		return nil, shortened(err)
	}
	if parsed == nil {
		return nil, fmt.Errorf("%s:1: the file is empty; it must at least name its package", m.Name)
	}
	return parsed, nil
}

// checkNames checks that a module belongs to the package root, and that its rules with a meaning are
// sets: a rule such as `deny if …` would compile, but never give a reason.
func checkNames(m *ast.Module, root string, rules []string) error {
	path := m.Package.Path // data, then the parts of the name
	at := fmt.Sprintf("%s:%d", m.Package.Location.File, m.Package.Location.Row)
	if len(path) < 2 || !path[1].Equal(ast.StringTerm(root)) {
		return fmt.Errorf("%s: the package is %s; it must be %s, or begin with %s and a dot", at, strings.TrimPrefix(path.String(), "data."), root, root)
	}
	if len(path) > 2 {
		if name, _ := path[2].Value.(ast.String); slices.Contains(rules, string(name)) {
			return fmt.Errorf("%s: %s is the name of a rule and cannot be that of a package; choose another", at, name)
		}
		return nil
	}
	for _, r := range m.Rules {
		ref := r.Head.Ref()
		name := ref[0].Value.String()
		if slices.Contains(rules, name) && (len(ref) > 1 || r.Head.RuleKind() != ast.MultiValue) {
			return fmt.Errorf("%s:%d: %s must be a set of reasons: write `%s contains reason if { … }`", r.Location.File, r.Location.Row, name, name)
		}
	}
	return nil
}

// compile compiles modules in strict mode.
func compile(modules map[string]*ast.Module, printing bool) (*ast.Compiler, error) {
	c := ast.NewCompiler().WithStrict(true).WithCapabilities(capabilities()).WithEnablePrintStatements(printing).WithDefaultRegoVersion(ast.RegoV1)
	if c.Compile(modules); c.Failed() {
		return nil, shortened(c.Errors)
	}
	return c, nil
}

// shortened lists the first mistakes, each on a line with its file and line number.
func shortened(err error) error {
	var all ast.Errors
	if !errors.As(err, &all) {
		return err
	}
	var lines []string
	for i, e := range all {
		if i == maxErrors {
			lines = append(lines, fmt.Sprintf("%d more mistakes", len(all)-i))
			break
		}
		lines = append(lines, e.Error())
	}
	return errors.New(strings.Join(lines, "\n"))
}

// query evaluates the rules of one package.
type query struct{ prepared rego.PreparedEvalQuery }

// prepare prepares the evaluation of a package's rules. With automerge, it must define that rule too.
func prepare(ctx context.Context, c *ast.Compiler, pkg string, rules []string, automerge bool) (query, error) {
	var parts []string
	for _, r := range rules {
		parts = append(parts, fmt.Sprintf("%s := [r | some r in data.%s.%s]", r, pkg, r))
	}
	if automerge {
		parts = append(parts, fmt.Sprintf("%s := data.%s.%s", ruleAutomerge, pkg, ruleAutomerge))
	}
	prepared, err := rego.New(
		rego.Compiler(c), rego.Query(strings.Join(parts, "; ")), rego.SetRegoVersion(ast.RegoV1), rego.StrictBuiltinErrors(true),
		rego.Capabilities(capabilities()),
	).PrepareForEval(ctx)
	if err != nil {
		return query{}, fmt.Errorf("prepare the policies of package %s: %w", pkg, err)
	}
	return query{prepared}, nil
}

// outcome is the result of a package's rules, by rule.
type outcome map[string]any

func (q query) eval(ctx context.Context, input ast.Value, options ...rego.EvalOption) (outcome, error) {
	results, err := q.prepared.Eval(ctx, append(options, rego.EvalParsedInput(input))...)
	if err != nil {
		return nil, err
	}
	if len(results) != 1 {
		return nil, fmt.Errorf("the policies have %d results instead of one", len(results))
	}
	return outcome(results[0].Bindings), nil
}

// list returns the values of a rule.
func (o outcome) list(rule string) []any {
	values, _ := o[rule].([]any)
	return values
}

// reasons returns the reasons of a bundle.
func (o outcome) reasons(source string) (out []Reason) {
	for rule, d := range decisions {
		for _, value := range o.list(rule) {
			out = append(out, reasonOf(value, d, source))
		}
	}
	return out
}

// said returns what the policies of a bundle say besides their reasons.
func (o outcome) said() said {
	return said{stops: len(o.list(ruleNoAutomerge)) > 0, review: len(o.list(ruleReview)) > 0}
}

// and combines what several bundles say: the strictest counts.
func (s said) and(o said) said { return said{stops: s.stops || o.stops, review: s.review || o.review} }

// number reads an integer of a result.
func number(v any) int {
	switch n := v.(type) {
	case json.Number:
		i, err := n.Int64()
		if err != nil {
			return 0
		}
		return int(i)
	case float64:
		return int(n)
	default:
		return 0
	}
}
