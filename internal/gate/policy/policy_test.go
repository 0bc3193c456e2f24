package policy_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/gate/gatetest"
	"github.com/rocketgpt/orchestrator/internal/gate/policy"
)

const (
	major  = contract.SeverityMajor
	medium = contract.SeverityMedium
	minor  = contract.SeverityMinor
)

func judge(t testing.TB, e *policy.Engine, in policy.Input) policy.Verdict {
	t.Helper()
	v, err := e.Judge(t.Context(), in, policy.RepositoryPolicies{})
	require.NoError(t, err)
	return v
}

func TestTheBundlesDecideByGuardRuleSeverityStageAndAuthor(t *testing.T) {
	t.Parallel()
	const allow, ask, deny = policy.Allow, policy.NeedsApproval, policy.Deny
	const step, repair, release = policy.StageStep, policy.StageRepair, policy.StageRelease
	for _, c := range []struct {
		name      string
		stage     policy.Stage
		author    change.Role
		found     change.Finding
		def       policy.Decision
		strict    policy.Decision
		permitted policy.Decision
	}{
		{"secret", step, change.RoleBuilder, finding(major, "secrets", "key", "a"), deny, deny, deny},
		{"secret, perhaps", release, change.RoleRun, finding(medium, "secrets", "entropy", "a"), allow, ask, allow},
		{"link out of the tree", step, change.RoleBuilder, finding(major, "rewrite", "link-outside", "a"), deny, deny, deny},
		{"git's files", step, change.RoleBuilder, finding(major, "rewrite", "unsafe-path", "a"), deny, deny, deny},
		{"mass deletion", step, change.RoleBuilder, finding(major, "rewrite", "deletions", ""), deny, deny, allow},
		{"path that is not allowed", step, change.RoleBuilder, finding(major, "rewrite", "outside", "a"), deny, deny, allow},
		{"too many files", step, change.RoleBuilder, finding(major, "rewrite", "files", ""), allow, allow, allow},
		{"too many files, released", release, change.RoleRun, finding(major, "rewrite", "files", ""), ask, ask, allow},
		{"protected path in a step", step, change.RoleBuilder, finding(major, "rewrite", "protected", "a"), allow, allow, allow},
		{"protected path in a repair", repair, change.RoleRepair, finding(major, "rewrite", "protected", "a"), deny, deny, allow},
		{"protected path, released", release, change.RoleRun, finding(major, "rewrite", "protected", "a"), ask, ask, allow},
		{"protected path of a person", policy.StageCheck, change.RolePerson, finding(major, "rewrite", "protected", "a"), ask, ask, allow},
		{"workflow in a repair", repair, change.RoleRepair, finding(major, "workflow", "ci", "a"), deny, deny, allow},
		{"workflow, released", release, change.RoleRun, finding(major, "workflow", "ci", "a"), ask, ask, allow},
		{"deleted test in a step", step, change.RoleBuilder, finding(major, "tests", "deleted", "a"), allow, deny, allow},
		{"deleted test, released", release, change.RoleRun, finding(major, "tests", "deleted", "a"), deny, deny, allow},
		{"weaker test, perhaps", release, change.RoleRun, finding(medium, "tests", "weakened", "a"), allow, ask, allow},
		{"hidden text in a step", step, change.RoleBuilder, finding(major, "injection", "hidden", "a"), allow, deny, allow},
		{"hidden text, released", release, change.RoleRun, finding(major, "injection", "hidden", "a"), ask, deny, allow},
		{"API break", release, change.RoleRun, finding(major, "refactor", "api", "a"), ask, ask, allow},
		{"API break in a step", step, change.RoleBuilder, finding(major, "refactor", "api", "a"), allow, allow, allow},
		{"syntax in a step", step, change.RoleBuilder, finding(major, "syntax", "error", "a"), allow, deny, allow},
		{"syntax, released", release, change.RoleRun, finding(major, "syntax", "error", "a"), deny, deny, allow},
		{"blocked", release, change.RoleRun, finding(major, "labels", "blocked", ""), deny, deny, allow},
		{"asks for a person", release, change.RoleRun, finding(medium, "labels", "needs-approval", ""), ask, ask, allow},
		{"misspelt label", release, change.RoleRun, finding(medium, "labels", "unknown", ""), ask, ask, allow},
		{"asks for a person, in a step", step, change.RoleBuilder, finding(medium, "labels", "needs-approval", ""), allow, allow, allow},
		{"dependency", release, change.RoleRun, finding(major, "dependencies", "advisory", "a"), ask, ask, allow},
		{"failed guard", release, change.RoleRun, finding(major, "secrets", "unreadable", ""), ask, ask, deny},
		{"unexamined", release, change.RoleRun, finding(medium, "secrets", "unexamined", "a"), ask, ask, deny},
		{"unread file", release, change.RoleRun, finding(medium, "rewrite", "unread-file", "a"), ask, ask, allow},
		{"unread file in a step", step, change.RoleBuilder, finding(medium, "rewrite", "unread-file", "a"), allow, allow, allow},
		{"unknown guard", release, change.RoleRun, finding(major, "new", "rule", ""), ask, ask, allow},
		{"minor", release, change.RoleRun, finding(minor, "tests", "style", "a"), allow, allow, allow},
	} {
		for bundle, want := range map[string]policy.Decision{policy.Default: c.def, policy.Strict: c.strict, policy.Permissive: c.permitted} {
			t.Run(c.name+"/"+bundle, func(t *testing.T) {
				t.Parallel()
				in := oneChange(c.stage, c.found)
				in.Author = c.author
				v := judge(t, engine(t, bundle), in)
				require.Equal(t, want, v.Decision, texts(v))
				require.Len(t, v.Reasons, 1, "each finding is recorded once, whatever follows from it: %s", texts(v))
				require.Equal(t, c.found.Path, v.Reasons[0].Path)
				require.Equal(t, in.Findings[0].ID, v.Reasons[0].ID)
			})
		}
	}
}

func TestAReleaseThatStaysOnTheHostAsksOnlyInTheStrictBundle(t *testing.T) {
	t.Parallel()
	for bundle, want := range map[string]policy.Decision{policy.Default: policy.Allow, policy.Strict: policy.NeedsApproval, policy.Permissive: policy.Allow} {
		in := oneChange(policy.StageRelease, finding(major, "workflow", "ci", "a"))
		in.Run.Pushes = false
		v := judge(t, engine(t, bundle), in)
		require.Equal(t, want, v.Decision, bundle)
		require.Len(t, v.Reasons, 1, "it is recorded all the same")
	}
	in := oneChange(policy.StageRelease, finding(major, "secrets", "token", "a"))
	in.Run.Pushes = false
	require.Equal(t, policy.Deny, judge(t, engine(t, policy.Default), in).Decision, "what is forbidden is forbidden anywhere")
}

func TestLabelsDecideWithTheVerdictWhetherAReleaseMayMergeByItself(t *testing.T) {
	t.Parallel()
	labels := policy.Labels{Automerge: []string{"automerge"}, Blocked: []string{"blocked"}, Review: []string{"needs-review"}}
	for name, c := range map[string]struct {
		stage     policy.Stage
		labels    []string
		found     []change.Finding
		decision  policy.Decision
		automerge bool
	}{
		"no label":           {policy.StageRelease, nil, nil, policy.Allow, false},
		"automerge":          {policy.StageRelease, []string{"automerge"}, nil, policy.Allow, true},
		"only a release":     {policy.StageStep, []string{"automerge"}, nil, policy.Allow, false},
		"minor finding":      {policy.StageRelease, []string{"automerge"}, []change.Finding{finding(minor, "x", "y", "")}, policy.Allow, true},
		"medium finding":     {policy.StageRelease, []string{"automerge"}, []change.Finding{finding(medium, "x", "y", "")}, policy.Allow, false},
		"review":             {policy.StageRelease, []string{"automerge", "needs-review"}, nil, policy.NeedsApproval, false},
		"blocked":            {policy.StageRelease, []string{"automerge", "blocked"}, nil, policy.Deny, false},
		"blocked until then": {policy.StageStep, []string{"blocked"}, nil, policy.Allow, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := oneChange(c.stage, c.found...)
			in.Labels, in.Rules.Labels = c.labels, labels
			v := judge(t, engine(t, policy.Default), in)
			require.Equal(t, c.decision, v.Decision, texts(v))
			require.Equal(t, c.automerge, v.Automerge)
		})
	}
	in := oneChange(policy.StageRelease)
	in.Labels, in.Rules.Labels = []string{"automerge"}, labels
	v, err := engine(t, policy.Default).Judge(t.Context(), in, repository(t, "package repository\nno_automerge contains \"no\""))
	require.NoError(t, err)
	require.Equal(t, policy.Allow, v.Decision)
	require.False(t, v.Automerge, "a repository may forbid it")
}

func TestOnlyANamedPersonsApprovalOfThatReasonCounts(t *testing.T) {
	t.Parallel()
	e := engine(t, policy.Default)
	in := oneChange(policy.StageRelease, finding(major, "rewrite", "protected", "a.go"), finding(major, "refactor", "api", "b.go"))
	for _, c := range []struct {
		approvals []policy.Approval
		want      policy.Decision
	}{
		{nil, policy.NeedsApproval},
		{[]policy.Approval{{By: " ", Paths: []string{"a.go", "b.go"}}}, policy.NeedsApproval},
		{[]policy.Approval{{By: "ann", Paths: []string{"a.go"}}}, policy.NeedsApproval},
		{[]policy.Approval{{By: "ann", Paths: []string{"a.go"}}, {By: "bob", Reasons: []string{in.Findings[1].ID}}}, policy.Allow},
	} {
		in.Approvals = c.approvals
		require.Equal(t, c.want, judge(t, e, in).Decision, c.approvals)
	}
	v := judge(t, e, in)
	require.Equal(t, []string{"ann", "bob"}, []string{v.Reasons[0].ApprovedBy, v.Reasons[1].ApprovedBy})

	denied := oneChange(policy.StageRelease, finding(major, "secrets", "key", "a.go"))
	denied.Approvals = []policy.Approval{{By: "ann", Paths: []string{"a.go"}, Reasons: []string{denied.Findings[0].ID}}}
	require.Equal(t, policy.Deny, judge(t, e, denied).Decision, "no approval outweighs a denial")
}

func TestAnApprovalOfAFindingIsForItsContent(t *testing.T) {
	t.Parallel()
	f := finding(major, "rewrite", "protected", "ci.yml")
	id := func(after string) string {
		c := gatetest.Between(gatetest.Tree{"ci.yml": "1\n"}, gatetest.Tree{"ci.yml": after})
		return policy.NewInput(policy.StageRelease, c, []change.Finding{f}).Findings[0].ID
	}
	first, same, other := id("2\n"), id("2\n"), id("3\n")
	require.Equal(t, first, same)
	require.NotEqual(t, first, other)
}

func TestAnOperatorMayWaiveLowerAndAdd(t *testing.T) {
	t.Parallel()
	in := oneChange(policy.StageRelease, finding(major, "secrets", "key", "testdata/key.pem"), finding(major, "secrets", "key", "a.go"), finding(major, "refactor", "api", "b.go"))
	e := engine(t, policy.Strict, `package operator
import data.rgpt.lib
waive contains {"guard": f.guard, "rule": f.rule, "path": f.path} if {
	some f in input.findings
	f.guard == "secrets"
	startswith(f.path, "testdata/")
}
lower contains {"guard": "refactor", "rule": "api", "severity": "minor"}
needs_approval contains "two people must look" if lib.final
`)
	v := judge(t, e, in)
	require.Equal(t, policy.Deny, v.Decision)
	require.Equal(t, "deny: look at secrets\nneeds_approval: two people must look\nallow: look at refactor\nallow: waived: look at secrets", ordered(v), "each with its decision")
	require.True(t, slices.ContainsFunc(v.Reasons, func(r policy.Reason) bool { return r.Waived && r.Path == "testdata/key.pem" }))

	raises := engine(t, policy.Default, "package operator\nlower contains {\"guard\": \"x\", \"rule\": \"y\", \"severity\": \"major\"}")
	require.Equal(t, policy.Allow, judge(t, raises, oneChange(policy.StageRelease, finding(minor, "x", "y", ""))).Decision, "lower does not raise")
	for _, text := range []string{"waive contains {\"guard\": \"secrets\"}", "waive contains \"secrets\"", "lower contains {\"guard\": \"x\", \"rule\": \"y\"}"} {
		_, err := engine(t, policy.Default, "package operator\n"+text).Judge(t.Context(), in, policy.RepositoryPolicies{})
		require.ErrorContains(t, err, "operator's policies", text)
		require.Equal(t, contract.ClassConfig, fault.Of(err).Class)
	}
	_, err := engine(t, policy.Default, "package operator\ndeny contains x if x := to_number(input.stage)").Judge(t.Context(), in, policy.RepositoryPolicies{})
	require.ErrorContains(t, err, "ops0.rego:2", "a failed function must not hide a reason")
}

func ordered(v policy.Verdict) string {
	lines := strings.Split(texts(v), "\n")
	slices.SortStableFunc(lines, func(a, b string) int {
		rank := func(s string) int { return strings.Index("deny needs_approval allow", strings.SplitN(s, ":", 2)[0]) }
		if c := rank(a) - rank(b); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
	return strings.Join(lines, "\n")
}

// rank is 0 for the strictest decision.
func rank(d policy.Decision) int {
	return slices.Index([]policy.Decision{policy.Deny, policy.NeedsApproval, policy.Allow}, d)
}

// Whatever a repository's policies contain, a verdict is at least as strict with them as without.
func TestARepositorysPolicyNeverMakesAVerdictMilder(t *testing.T) {
	t.Parallel()
	parts := []string{
		`needs_approval contains "ask"`, `deny contains {"text": "no", "id": input.findings[0].id}`, `info contains r if some r in input.findings`,
		"waive contains {\"guard\": \"secrets\", \"rule\": \"key\"}", "lower contains f if some f in input.findings", "automerge := true", "default allow := true",
		`deny contains x if { some x in data.rgpt.defaults.deny }`, "x := data", "verdict(_) := \"info\"", "input := {}", "deny := set()", "import data.rgpt.lib",
		"no_automerge contains 1", "review contains 1", "deny contains x if { some x in deny }", "approvals := [{\"by\": \"me\"}]",
	}
	r := rand.New(rand.NewPCG(1, 2))
	guards := []string{"secrets", "rewrite", "tests", "refactor", "labels", "other"}
	rules := []string{"key", "link-outside", "protected", "api", "blocked"}
	labels := policy.Labels{Automerge: []string{"automerge"}, Blocked: []string{"blocked"}}
	changed := 0
	for range 25 {
		var found []change.Finding
		for range r.IntN(3) {
			found = append(found, finding(contract.Severities()[r.IntN(3)], guards[r.IntN(len(guards))], rules[r.IntN(len(rules))], "a.go"))
		}
		in := oneChange(policy.Stages()[r.IntN(5)], found...)
		in.Labels, in.Rules.Labels = []string{[]string{"automerge", "blocked", "docs"}[r.IntN(3)]}, labels
		text := "package repository\n"
		for range 1 + r.IntN(2) {
			text += parts[r.IntN(len(parts))] + "\n"
		}
		e := engine(t, policy.Names()[r.IntN(3)])
		without := judge(t, e, in)
		with, err := e.Judge(t.Context(), in, repository(t, text))
		require.NoError(t, err)
		require.LessOrEqual(t, rank(with.Decision), rank(without.Decision), text)
		require.True(t, without.Automerge || !with.Automerge, text)
		for _, reason := range without.Reasons {
			require.Contains(t, with.Reasons, reason, text)
		}
		if with.Decision != without.Decision {
			changed++
		}
	}
	require.NotZero(t, changed, "some of them make it stricter")
}

func TestAReasonForApprovalMayDemandAnApproverWhoIsNotAnAuthor(t *testing.T) {
	t.Parallel()
	for demand, want := range map[string]string{
		`"not_author"`: contract.ApproverNotAuthor, `"anyone"`: "",
		`"not-author"`: contract.ApproverNotAuthor, `3`: contract.ApproverNotAuthor, // the strictest, for what is misspelt
	} {
		e := engine(t, policy.Default, `package operator
needs_approval contains {"text": "ask", "approver": `+demand+`}
info contains {"text": "x", "approver": "not_author"}`)
		v := judge(t, e, oneChange(policy.StageRelease))
		require.Equal(t, policy.NeedsApproval, v.Decision)
		require.Equal(t, want, v.Reasons[0].Approver, demand)
		require.Empty(t, v.Reasons[1].Approver, "information needs no approver")
	}
}

func TestReasonsAreLimitedAndCannotForgeText(t *testing.T) {
	t.Parallel()
	e := engine(t, policy.Default, `package operator
info contains sprintf("%d", [i]) if some i in numbers.range(1, 1000)
deny contains {"text": "line\nnext\u202e", "path": "a\nb", "line": -3}
deny contains 7
deny contains {"message": "no text"}
deny contains concat("", ["x" | some _ in numbers.range(1, 5000)])
`)
	v := judge(t, e, oneChange(policy.StageStep))
	require.Equal(t, policy.Deny, v.Decision)
	require.Len(t, v.Reasons, policy.MaxReasons)
	require.Equal(t, 1004-policy.MaxReasons, v.Omitted)
	require.Contains(t, texts(v), "deny: line next?")
	require.Contains(t, texts(v), "no text for this reason: 7")
	require.Contains(t, texts(v), "no text for this reason: map[message:no text]")
	for _, r := range v.Reasons {
		require.LessOrEqual(t, len(r.Text), policy.MaxReasonLen+3)
		require.GreaterOrEqual(t, r.Line, 0)
		require.NotEmpty(t, r.ID)
	}
}

func TestTheSameInputAndPoliciesHaveTheSameVerdictAndDigest(t *testing.T) {
	t.Parallel()
	in := oneChange(policy.StageRelease, finding(major, "refactor", "api", "a.go"), finding(major, "tests", "deleted", "b"), finding(minor, "x", "y", "c"))
	one, two := judge(t, engine(t, policy.Strict), in), judge(t, engine(t, policy.Strict), in)
	require.Equal(t, one, two)
	require.NotEqual(t, one.Digest, judge(t, engine(t, policy.Default), in).Digest)
	in.Labels = []string{"x"}
	require.NotEqual(t, one.Input, judge(t, engine(t, policy.Strict), in).Input)
	require.Equal(t, policy.Strict, one.Bundles[0].Name)
	require.Regexp(t, "^sha256:[0-9a-f]{64}$", one.Bundles[0].Digest)
}

func TestAnInputDescribesTheChangeWithoutContents(t *testing.T) {
	t.Parallel()
	c := gatetest.Between(
		gatetest.Tree{"gone": "1\n", "kept": "a\nb\n", "old": "same\n"},
		gatetest.Tree{"kept": "a\nCONTENT\nc\n", "new": "x\x00", "moved": "same\n"},
	)
	in := policy.NewInput(policy.StageStep, c, nil)
	encoded, err := json.Marshal(in)
	require.NoError(t, err)
	require.NotContains(t, string(encoded), "CONTENT")
	require.Equal(t, policy.Totals{Files: 4, Created: 1, Deleted: 1, Renamed: 1, Added: 2, Removed: 2, Bytes: 19}, in.Change.Totals)
	byPath := map[string]policy.File{}
	for _, f := range in.Change.Files {
		byPath[f.Path] = f
	}
	require.Equal(t, policy.File{Path: "gone", Status: policy.StatusDeleted, OldMode: "100644", Removed: 1, OldSize: 2}, byPath["gone"])
	require.Equal(t, policy.StatusRenamed, byPath["moved"].Status)
	require.Equal(t, "old", byPath["moved"].From)
	require.True(t, byPath["new"].Binary)
	require.Equal(t, 2, byPath["kept"].Added)
}

func TestAnInputThatIsTooLargeIsDenied(t *testing.T) {
	t.Parallel()
	in := oneChange(policy.StageStep)
	in.Run.Project = strings.Repeat("x", policy.MaxInput)
	v := judge(t, engine(t, policy.Permissive), in)
	require.Equal(t, policy.Deny, v.Decision)
	require.Contains(t, texts(v), "split the change")
}

func many(files int) policy.Input {
	before, after := gatetest.Tree{}, gatetest.Tree{}
	for i := range files {
		before[fmt.Sprintf("internal/pkg%d/file%d.go", i%50, i)] = "a\nb\n"
		after[fmt.Sprintf("internal/pkg%d/file%d.go", i%50, i)] = "a\nc\n"
	}
	var found []change.Finding
	for i := range min(files, 900) {
		found = append(found, finding(contract.Severities()[i%3], "refactor", "api", fmt.Sprintf("internal/pkg%d/file%d.go", i%50, i)))
	}
	return policy.NewInput(policy.StageRelease, gatetest.Between(before, after), found)
}

func BenchmarkJudge(b *testing.B) {
	for _, files := range []int{20, 2000} {
		for _, bundle := range policy.Names() {
			b.Run(fmt.Sprintf("%s/%d files", bundle, files), func(b *testing.B) {
				e, in := engine(b, bundle), many(files)
				for b.Loop() {
					_ = judge(b, e, in)
				}
			})
		}
	}
}

func BenchmarkRepository(b *testing.B) {
	e, in, own := engine(b, policy.Default), many(20), repository(b, "package repository\ndeny contains \"x\" if input.version == 2")
	for b.Loop() {
		_, err := e.Judge(b.Context(), in, own)
		require.NoError(b, err)
	}
}
