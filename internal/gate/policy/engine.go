package policy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// Defaults of Options.
const (
	DefaultTimeout = 2 * time.Second
	DefaultMemory  = 512 << 20
)

// MaxInput is the maximum size of an encoded Input. A larger change is denied without evaluation.
const MaxInput = 32 << 20

// Options configure an Engine.
type Options struct {
	// Bundle is the name of the built-in bundle; empty: default.
	Bundle string
	// Operator are the operator's policies.
	Operator []Module
	// Foreign says that the operator's policies come from others, for example from a client: like a
	// repository's, they are compiled and evaluated in another process, which Memory limits.
	Foreign bool
	// Timeout limits each evaluation; 0: DefaultTimeout.
	Timeout time.Duration
	// Memory limits the process that evaluates policies of others; 0: DefaultMemory.
	Memory int64
	// Executable evaluates policies of others; empty: the running program. It must call
	// MaybeRunHelper first.
	Executable string
}

// Engine judges changes. It is safe for concurrent use.
type Engine struct {
	options  Options
	compiled *compiled
	bundles  []Bundle
}

// compiled are the policies of an Engine, ready for evaluation.
type compiled struct {
	builtIn, operator query
}

// compiledBefore contains policies by the digest of their files, so that an engine for known ones
// costs nothing. It is emptied when it holds too many.
var compiledBefore = struct {
	sync.Mutex
	all map[string]*compiled
}{all: map[string]*compiled{}}

const maxCompiled = 16

// New compiles the policies of an engine. The error of an operator's policy names file and line.
func New(ctx context.Context, o Options) (*Engine, error) {
	o.Bundle = cmp.Or(o.Bundle, Default)
	o.Timeout, o.Memory = cmp.Or(o.Timeout, DefaultTimeout), cmp.Or(o.Memory, int64(DefaultMemory))
	builtIn, err := BuiltIn(o.Bundle)
	if err != nil {
		return nil, fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig, "the policies cannot be used: %v", err)
	}
	e := &Engine{options: o, bundles: []Bundle{{o.Bundle, digestOf(builtIn)}}}
	if len(o.Operator) > 0 {
		e.bundles = append(e.bundles, Bundle{Operator, digestOf(o.Operator)})
	}
	if o.Foreign && len(o.Operator) > 0 {
		if _, err := e.foreign(ctx, nil); err != nil {
			return nil, err
		}
		o.Operator = nil // they are compiled where they are evaluated
	}
	key := identify(e.bundles)
	if o.Foreign {
		key = "foreign " + key
	}
	compiledBefore.Lock()
	defer compiledBefore.Unlock()
	if e.compiled = compiledBefore.all[key]; e.compiled != nil {
		return e, nil
	}
	if e.compiled, err = compileAll(ctx, o); err != nil {
		return nil, fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig, "the policies cannot be used: %v", err)
	}
	if len(compiledBefore.all) >= maxCompiled {
		clear(compiledBefore.all)
	}
	compiledBefore.all[key] = e.compiled
	return e, nil
}

// Bundles returns the bundles that the engine evaluates on each change.
func (e *Engine) Bundles() []Bundle { return slices.Clone(e.bundles) }

// packages are those of the built-in bundles.
var packages = map[string]string{Default: "rgpt.defaults", Strict: "rgpt.strict", Permissive: "rgpt.permissive"}

func compileAll(ctx context.Context, o Options) (*compiled, error) {
	own, err := allBuiltIn()
	if err != nil {
		return nil, err
	}
	modules, err := parse(own, "", nil)
	if err != nil {
		return nil, err
	}
	operator, err := parse(o.Operator, Operator, operatorRules)
	if err != nil {
		return nil, err
	}
	maps.Copy(modules, operator)
	c, err := compile(modules, false)
	if err != nil {
		return nil, err
	}
	out := &compiled{}
	if out.builtIn, err = prepare(ctx, c, packages[o.Bundle], builtInRules, true); err != nil {
		return nil, err
	}
	if len(o.Operator) > 0 {
		out.operator, err = prepare(ctx, c, Operator, operatorRules, false)
	}
	return out, err
}

// Judge evaluates the policies on an input, and those of the repository's base commit. An error
// means that there is no verdict, for example because an operator's policy failed; policies of a
// repository that fail or use too much lead to a verdict.
func (e *Engine) Judge(ctx context.Context, in Input, repository RepositoryPolicies) (Verdict, error) {
	return e.verdict(ctx, in, repository, nil)
}

// Explain is Judge that also returns, for each reason, the rules that gave it. Rules of a
// repository are not traced: its policies run in another process.
func (e *Engine) Explain(ctx context.Context, in Input, repository RepositoryPolicies) (Verdict, Origins, error) {
	t := &trace{}
	v, err := e.verdict(ctx, in, repository, t)
	return v, t.rules, err
}

func (e *Engine) verdict(ctx context.Context, in Input, repository RepositoryPolicies, t *trace) (Verdict, error) {
	in = in.complete()
	encoded, err := in.encode()
	if err != nil {
		return Verdict{}, err
	}
	bundles := slices.Clone(e.bundles)
	if d := repository.Digest(); d != "" {
		bundles = append(bundles, Bundle{Repository, d})
	}
	var v Verdict
	if len(encoded) > MaxInput {
		v = decide([]Reason{tooLarge(len(encoded))}, nil, false)
	} else if v, err = e.judge(ctx, in, encoded, repository, t); err != nil {
		return Verdict{}, err
	}
	v.Bundles, v.Input = bundles, digest(encoded)
	v.Digest = digest(fmt.Append(nil, v.Input, bundles))
	return v, nil
}

func tooLarge(size int) Reason {
	return gateReason(Deny, fmt.Sprintf("the description of the change has %d MiB, more than the %d that are judged; split the change", size>>20, MaxInput>>20))
}

// gateReason is a reason of the gate itself.
func gateReason(d Decision, message string) Reason {
	return reasonOf(message, d, SourceGate)
}

func (e *Engine) judge(ctx context.Context, in Input, encoded []byte, repository RepositoryPolicies, t *trace) (Verdict, error) {
	original, err := ast.ValueFromReader(bytes.NewReader(encoded))
	if err != nil {
		return Verdict{}, fmt.Errorf("read the input of the policies: %w", err)
	}
	reasons, also, err := e.repository(ctx, encoded, repository)
	if err != nil {
		return Verdict{}, err
	}
	judged := original
	if len(e.options.Operator) > 0 {
		out, err := e.operator(ctx, original, encoded, t)
		if err != nil {
			return Verdict{}, err
		}
		changed, waived, err := adjust(&in, out)
		if err != nil {
			return Verdict{}, fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig, "the operator's policies (gate.policies) cannot be applied")
		}
		reasons = slices.Concat(reasons, waived, out.reasons(Operator))
		also = also.and(out.said())
		if changed {
			if encoded, err = in.encode(); err != nil {
				return Verdict{}, err
			}
			if judged, err = ast.ValueFromReader(bytes.NewReader(encoded)); err != nil {
				return Verdict{}, err
			}
		}
	}
	out, err := e.evaluate(ctx, e.compiled.builtIn, judged, e.options.Bundle, t)
	if err != nil {
		return Verdict{}, err
	}
	also = also.and(out.said())
	automerge, _ := out[ruleAutomerge].(bool)
	v := decide(append(reasons, out.reasons(e.options.Bundle)...), in.Approvals, automerge && !also.stops)
	v.Review = also.review
	return v, nil
}

// operator evaluates the operator's policies.
func (e *Engine) operator(ctx context.Context, input ast.Value, encoded []byte, t *trace) (outcome, error) {
	if e.options.Foreign {
		return e.foreign(ctx, encoded)
	}
	return e.evaluate(ctx, e.compiled.operator, input, Operator, t)
}

// foreign evaluates policies that a client sent, in another process; without input, it only compiles
// them.
func (e *Engine) foreign(ctx context.Context, input []byte) (outcome, error) {
	answer, end, err := e.runHelper(ctx, helperTask{
		Package: Operator, Modules: e.options.Operator, Input: input, Timeout: e.options.Timeout, Memory: e.options.Memory,
	})
	wrong := func(format string, args ...any) error {
		return fault.New(contract.ClassConfig, contract.CodeInvalidConfig, format, args...)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("evaluate the policies of the request: %w", err)
	case end == helperKilled:
		return nil, wrong("the policies of the request used too much memory or time (limits: %d MiB, gate.memory; %s, gate.timeout); make them simpler",
			e.options.Memory>>20, e.options.Timeout)
	case end == helperLate:
		return nil, wrong("the policies of the request did not finish within %s (gate.timeout); make them faster or raise the limit", e.options.Timeout)
	case answer.Invalid != "":
		return nil, wrong("the policies cannot be used: %s", answer.Invalid)
	}
	return answer.Rules, nil
}

// evaluate evaluates trusted policies.
func (e *Engine) evaluate(ctx context.Context, q query, input ast.Value, name string, t *trace) (outcome, error) {
	limited, cancel := context.WithTimeout(ctx, e.options.Timeout)
	defer cancel()
	out, err := q.eval(limited, input, t.of(name)...)
	switch {
	case err == nil:
		return out, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(limited.Err(), context.DeadlineExceeded):
		return nil, fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig,
			"the %s policies did not finish within %s (gate.timeout); make them faster or raise the limit", name, e.options.Timeout)
	default:
		return nil, fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig, "the %s policies failed; fix them", name)
	}
}

// adjust removes waived findings and lowers the severity of others, as the operator's policies say.
func adjust(in *Input, out outcome) (changed bool, waived []Reason, err error) {
	waivers, err := selectors(out.list(ruleWaive), ruleWaive)
	if err != nil {
		return false, nil, err
	}
	lowered, err := selectors(out.list(ruleLower), ruleLower)
	if err != nil || len(waivers)+len(lowered) == 0 {
		return false, nil, err
	}
	var kept []Finding
	for _, f := range in.Findings {
		if slices.ContainsFunc(waivers, func(s selector) bool { return s.matches(f) }) {
			changed = true
			waived = append(waived, Reason{
				ID: f.ID, Decision: Allow, Text: text("waived: " + f.Message), Source: Operator, Guard: f.Guard, Rule: f.Rule,
				Path: f.Path, Line: f.Line, Waived: true,
			})
			continue
		}
		for _, s := range lowered {
			if s.matches(f) && severityRank(s.severity) > severityRank(f.Severity) {
				f.Severity, changed = s.severity, true
			}
		}
		kept = append(kept, f)
	}
	in.Findings = list(kept)
	return changed, waived, nil
}

// selector selects findings: by guard and rule, and by those of the others that are set.
type selector struct {
	guard, rule, path, id string
	line                  int
	severity              contract.Severity
}

func (s selector) matches(f Finding) bool {
	return s.guard == f.Guard && s.rule == f.Rule && (s.path == "" || s.path == f.Path) &&
		(s.line == 0 || s.line == f.Line) && (s.id == "" || s.id == f.ID)
}

// selectors reads the values of waive and lower. Each must name a guard and a rule, so that no
// policy waives everything by accident.
func selectors(values []any, rule string) ([]selector, error) {
	var out []selector
	for _, value := range values {
		v, _ := value.(map[string]any)
		s := selector{
			guard: field(v, "guard"), rule: field(v, "rule"), path: field(v, "path"), id: field(v, "id"),
			line: number(v["line"]), severity: contract.Severity(field(v, "severity")),
		}
		if s.guard == "" || s.rule == "" {
			return nil, fmt.Errorf("%s contains %v, which does not name guard and rule", rule, value)
		}
		if rule == ruleLower && severityRank(s.severity) < 0 {
			return nil, fmt.Errorf("%s contains %v, whose severity is not medium or minor", rule, value)
		}
		out = append(out, s)
	}
	return out, nil
}

// severityRank orders severities, the most serious first; an unknown one is -1.
func severityRank(s contract.Severity) int { return slices.Index(contract.Severities(), s) }
