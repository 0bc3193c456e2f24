package policy

import (
	"fmt"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// Origins are the rules that gave reasons, as file:line, by source and ID of the reason.
type Origins map[[2]string][]string

// Of returns the rules that gave a reason.
func (o Origins) Of(r Reason) []string { return o[[2]string{r.Source, r.ID}] }

// trace collects the origins of reasons. A nil one collects nothing.
type trace struct{ rules Origins }

// of returns the option with which the evaluation of a bundle is traced.
func (t *trace) of(source string) []rego.EvalOption {
	if t == nil {
		return nil
	}
	return []rego.EvalOption{rego.EvalQueryTracer(&tracer{t, source})}
}

// decisions are what the values of rules say about a change.
var decisions = map[string]Decision{ruleDeny: Deny, ruleApproval: NeedsApproval, ruleInfo: Allow}

// tracer notes each value that a rule adds to a set of reasons. It implements topdown.QueryTracer.
type tracer struct {
	trace  *trace
	source string
}

// Enabled says that there is a tracer.
func (*tracer) Enabled() bool { return true }

// Config asks for the values of local variables, of which the heads of rules consist.
func (*tracer) Config() topdown.TraceConfig { return topdown.TraceConfig{PlugLocalVars: true} }

// TraceEvent notes the value of a rule that was evaluated to its end.
func (t *tracer) TraceEvent(e topdown.Event) {
	rule, ok := e.Node.(*ast.Rule)
	if !ok || e.Op != topdown.ExitOp || rule.Head.Key == nil {
		return
	}
	d, ok := decisions[string(rule.Head.Name)]
	if !ok {
		return
	}
	head := rule.Head.Key.Value
	if local, ok := head.(ast.Var); ok { // the compiler moves all that is not constant to a variable
		head = e.Locals.Get(local)
	}
	if head == nil || !head.IsGround() {
		return
	}
	value, err := ast.JSON(head)
	if err != nil {
		return
	}
	key := [2]string{t.source, reasonOf(value, d, t.source).ID}
	if t.trace.rules == nil {
		t.trace.rules = Origins{}
	}
	at := fmt.Sprintf("%s:%d", rule.Location.File, rule.Location.Row)
	if !slices.Contains(t.trace.rules[key], at) {
		t.trace.rules[key] = append(t.trace.rules[key], at)
	}
}
