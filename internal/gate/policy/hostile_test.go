package policy_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/gate/gatetest"
	"github.com/rocketgpt/orchestrator/internal/gate/policy"
)

// engine returns an engine with the operator's policies.
func engine(t testing.TB, bundle string, operator ...string) *policy.Engine {
	t.Helper()
	var modules []policy.Module
	for i, text := range operator {
		modules = append(modules, policy.Module{Name: fmt.Sprintf("ops%d.rego", i), Content: []byte(text)})
	}
	e, err := policy.New(t.Context(), policy.Options{Bundle: bundle, Operator: modules})
	require.NoError(t, err)
	return e
}

// repository returns the policies of a repository with one file.
func repository(t testing.TB, text string) policy.RepositoryPolicies {
	t.Helper()
	r, err := policy.ReadRepository(t.Context(), gatetest.Tree{".rgpt/policies/own.rego": text})
	require.NoError(t, err)
	return r
}

// oneChange is a change of one file in a run that pushes.
func oneChange(stage policy.Stage, found ...change.Finding) policy.Input {
	c := gatetest.Between(gatetest.Tree{"a.go": "one\n"}, gatetest.Tree{"a.go": "two\n"})
	in := policy.NewInput(stage, c, found)
	in.Run.Pushes = true
	return in
}

func finding(severity contract.Severity, guard, rule, path string) change.Finding {
	return change.Finding{Guard: guard, Rule: rule, Path: path, Severity: severity, Message: "look at " + guard}
}

func texts(v policy.Verdict) string {
	var out []string
	for _, r := range v.Reasons {
		out = append(out, string(r.Decision)+": "+r.Text)
	}
	return strings.Join(out, "\n")
}

func TestARepositorysPolicyThatUsesTooMuchIsStoppedAndDenied(t *testing.T) {
	t.Parallel()
	e := engine(t, policy.Default)
	deep := strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)
	for name, c := range map[string]struct {
		text     string
		decision policy.Decision
		says     string
	}{
		"numbers":        {"package repository\ndeny contains x if some x in numbers.range(1, 1000000000000)", policy.Deny, "did not finish|too much memory"},
		"comprehensions": {"package repository\na := numbers.range(1, 3000)\ndeny contains \"x\" if count([1 | some x in a; some y in a; some z in a; x + y + z == 0]) > 1", policy.Deny, "did not finish|too much"},
		"strings":        {"package repository\na := concat(\"\", [\"xxxxxxxxxxxxxxxx\" | some _ in numbers.range(1, 100000)])\nb := concat(\"\", [a | some _ in numbers.range(1, 10000)])\ndeny contains b", policy.Deny, "did not finish|too much"},
		"regex":          {"package repository\ndeny contains \"x\" if regex.match(`((((((a{1,9}){1,9}){1,9}){1,9}){1,9}){1,9}){1,9}$`, \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab\")", policy.NeedsApproval, "invalid"},
		"deep nesting":   {"package repository\nx := " + deep, "", "invalid|did not finish"},
		"too large":      {"package repository\n" + strings.Repeat("# x\n", 100_000), policy.Deny, "larger than"},
		"bad text":       {"package repository\n# \xff\xfe", policy.NeedsApproval, "UTF-8"},
		"syntax":         {"package repository\ndeny contains {", policy.NeedsApproval, "own.rego:2"},
		"network":        {"package repository\ndeny contains \"x\" if http.send({\"method\": \"get\", \"url\": \"http://127.0.0.1\"})", policy.NeedsApproval, "http.send"},
		"runtime":        {"package repository\ndeny contains x if x := opa.runtime().env.HOME", policy.NeedsApproval, "opa.runtime"},
		"other package":  {"package rgpt.defaults\nverdict(_) := \"info\"", policy.NeedsApproval, "must be repository"},
		"not a set":      {"package repository\ndeny if true", policy.NeedsApproval, "set of reasons"},
		"conflict":       {"package repository\nx := 1 if input.version\nx := 2 if input.version\ndeny contains \"x\" if x == 3", policy.NeedsApproval, "conflict"},
		"empty":          {"", policy.NeedsApproval, "empty"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			v, err := e.Judge(t.Context(), oneChange(policy.StageRelease), repository(t, c.text))
			if err != nil && strings.Contains(c.says, "did not finish") { // which depends on the machine's speed
				requireRetried(t, err)
				return
			}
			require.NoError(t, err)
			t.Log(time.Since(start), texts(v))
			require.NotEqual(t, policy.Allow, v.Decision)
			if c.decision != "" { // otherwise it depends on the machine's speed
				require.Equal(t, c.decision, v.Decision, texts(v))
			}
			require.Regexp(t, c.says, texts(v))
			require.LessOrEqual(t, len(v.Reasons), policy.MaxReasons)
			require.Less(t, len(texts(v)), 400_000)
		})
	}
}

// requireRetried requires that an evaluation missed its time, which is not a verdict.
func requireRetried(t *testing.T, err error) {
	t.Helper()
	f := fault.Of(err)
	require.Equal(t, []any{contract.ClassInfra, contract.CodeTimeout}, []any{f.Class, f.Code}, f.Message)
	require.Contains(t, f.Message, "did not finish within")
	var known *fault.Error
	require.ErrorAs(t, err, &known)
	_, again := known.RetryDelay(1)
	require.True(t, again)
	_, again = known.RetryDelay(5)
	require.False(t, again, "and ends as a failure")
}

func TestARepositorysPolicyThatMissesItsTimeIsNotAVerdict(t *testing.T) {
	t.Parallel()
	e, err := policy.New(t.Context(), policy.Options{Timeout: 100 * time.Millisecond, Memory: 2 << 30})
	require.NoError(t, err)
	_, err = e.Judge(t.Context(), oneChange(policy.StageRelease), repository(t,
		"package repository\na := numbers.range(1, 2000)\ndeny contains \"x\" if count([1 | some x in a; some y in a; some z in a; x + y + z == 0]) > 1"))
	requireRetried(t, err)
}

func TestACancelledEvaluationIsAnErrorNotAVerdict(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := engine(t, policy.Default).Judge(ctx, oneChange(policy.StageRelease), repository(t, "package repository\ndeny contains \"x\""))
	require.ErrorIs(t, err, context.Canceled)
}

func TestTheMemoryOfARepositorysPolicyIsLimited(t *testing.T) {
	t.Parallel()
	e, err := policy.New(t.Context(), policy.Options{Timeout: time.Minute, Memory: 128 << 20})
	require.NoError(t, err)
	v, err := e.Judge(t.Context(), oneChange(policy.StageRelease), repository(t, "package repository\nneeds_approval contains \"x\""))
	require.NoError(t, err)
	require.Equal(t, policy.NeedsApproval, v.Decision, "there is enough for a usual policy: %s", texts(v))
	v, err = e.Judge(t.Context(), oneChange(policy.StageRelease), repository(t, "package repository\ndeny contains x if { x := [[y, z] | some y in numbers.range(1, 3000); some z in numbers.range(1, 3000)] }"))
	require.NoError(t, err)
	require.Equal(t, policy.Deny, v.Decision)
	require.Contains(t, texts(v), "too much memory")
}

// foreign returns an engine for policies that a client sent.
func foreign(t *testing.T, memory int64, text string) (*policy.Engine, error) {
	t.Helper()
	return policy.New(t.Context(), policy.Options{
		Operator: []policy.Module{{Name: "sent.rego", Content: []byte(text)}}, Foreign: true, Timeout: time.Minute, Memory: memory,
	})
}

func TestTheMemoryOfPoliciesThatAClientSendsIsLimited(t *testing.T) {
	t.Parallel()
	const memory = 256 << 20 // threads count too, so less is not always enough to compile
	for name, rule := range map[string]string{
		"lists":   "deny contains x if { x := [[y, z] | some y in numbers.range(1, 3000); some z in numbers.range(1, 3000)] }",
		"strings": "a := concat(\"\", [\"xxxxxxxxxxxxxxxx\" | some _ in numbers.range(1, 100000)])\nb := concat(\"\", [a | some _ in numbers.range(1, 10000)])\ndeny contains b",
		"numbers": "deny contains x if some x in numbers.range(1, 1000000000000)",
	} {
		e, err := foreign(t, memory, "package operator\n"+rule)
		require.NoError(t, err, name)
		_, err = e.Judge(t.Context(), oneChange(policy.StageRelease), policy.RepositoryPolicies{})
		require.ErrorContains(t, err, "used too much memory or time (limits: 256 MiB, gate.memory", name)
		require.Equal(t, []any{contract.ClassConfig, contract.CodeInvalidConfig}, []any{fault.Of(err).Class, fault.Of(err).Code})
	}
	_, err := foreign(t, memory, "package operator\nx := "+strings.Repeat("[", 500_000)+strings.Repeat("]", 500_000))
	require.Error(t, err, "the compiler is limited, too")
	_, err = foreign(t, memory, "package operator\ndeny contains {")
	require.ErrorContains(t, err, "sent.rego:2")
	_, err = foreign(t, memory, "package rgpt.defaults\nx := 1")
	require.ErrorContains(t, err, "must be operator")
}

func TestPoliciesThatAClientSendsDecideLikeThoseOfTheOperator(t *testing.T) {
	t.Parallel()
	text := `package operator

import data.rgpt.lib

deny contains {"text": "no", "path": f.path, "line": 3} if {
	lib.final
	some f in input.change.files
}

needs_approval contains {"text": "ask", "approver": "not_author"} if input.stage == "release"

no_automerge contains "never"

waive contains {"guard": "a", "rule": "x", "line": 7} if true

lower contains {"guard": "b", "rule": "y", "severity": "minor"} if true
`
	one, two := finding(contract.SeverityMajor, "a", "x", "a.go"), finding(contract.SeverityMajor, "b", "y", "a.go")
	one.Line = 7
	e, err := foreign(t, policy.DefaultMemory, text)
	require.NoError(t, err)
	got, err := e.Judge(t.Context(), oneChange(policy.StageRelease, one, two), policy.RepositoryPolicies{})
	require.NoError(t, err)
	own, err := policy.New(t.Context(), policy.Options{Operator: []policy.Module{{Name: "sent.rego", Content: []byte(text)}}})
	require.NoError(t, err)
	want, err := own.Judge(t.Context(), oneChange(policy.StageRelease, one, two), policy.RepositoryPolicies{})
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Contains(t, texts(got), "waived: look at a")
}
