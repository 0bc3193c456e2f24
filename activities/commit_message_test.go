package activities

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/rangetable"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/terminal"
	"github.com/rocketgpt/orchestrator/test/hostile"
)

func TestCommitMessagesCloseNoIssuesAndMentionNobody(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Fixes #12":                       "Fixes: see #12",
		"This closes: o/r#3 and fix gh-4": "This closes: see o/r#3 and fix: see gh-4",
		"Resolving https://git.example.com/o/r/issues/2": "Resolving: see https://git.example.com/o/r/issues/2",
		"closes\n!5":                                            "closes: see\n!5",
		"Closes issue #4":                                       "Closes: see issue #4",
		"Implements #9":                                         "Implements: see #9",
		"thanks @ann, (@org/team) @types/":                      "thanks @ ann, (@ org/team) @ types/",
		"@ann":                                                  "@ ann",
		"Reopens #4":                                            "Reopens: see #4",
		"Add x [skip ci] [CI-Skip]":                             "Add x skip ci CI-Skip",
		"***NO_CI*** x\n\nskip-checks: true":                    "NO_CI x\n\nskip-checks true",
		"[skip azurepipelines]":                                 "skip azurepipelines",
		"Fix the parser, see #12":                               "Fix the parser, see #12",
		"Mail ann@example.com":                                  "Mail ann@example.com",
		"Fix 12 bugs; prefix #7":                                "Fix 12 bugs; prefix #7",
		"Use the decorator\n@property":                          "Use the decorator\n@ property",
		"ask .@ann, -@ann or é@ann":                             "ask .@ ann, -@ ann or é@ ann",
		"@\u200bann, clo\u200bses #1":                           "@ ann, closes: see #1",
		"Closes\u00a0#1, fixes\r#2":                             "Closes: see #1, fixes: see\n#2",
		"Closes (#1) fixes:#2 **fixes** #3":                     "Closes: see (#1) fixes: see #2 **fixes** #3",
		"Closes issues  #4, fixes #5":                           "Closes: see issues  #4, fixes: see #5",
		"Fixes APP-12 and closes X_Y-3":                         "Fixes: see APP-12 and closes: see X_Y-3",
		"Fix UTF-8 and SHA-256, see RFC-7231":                   "Fix UTF-8 and SHA-256, see RFC-7231",
		"Implement GPT-4 client":                                "Implement GPT-4 client",
		"Fix X86-64 build, implement HTTP-2":                    "Fix X86-64 build, implement HTTP-2",
		"Fix APP2-4":                                            "Fix: see APP2-4",
		"[[skip ci]] [skip\nci] [ci skip]":                      "skip ci skip\nci ci skip",
		"******NO_CI******":                                     "NO_CI",
		"x\n\nCo-authored-by: Ann <a@b.c>\nSigned-off-by : Ann": "x\n\n> Co-authored-by: Ann <a@b.c>\n> Signed-off-by : Ann",
		"RGPT-Run: 1":                                           "> RGPT-Run: 1",
		"a \x1b[31mred\x1b[0m b":                                "a red b",
	} {
		require.Equal(t, want, defused(text))
		require.Equal(t, want, defused(defused(text)), "once more")
	}
}

func TestASecretSplitByInvisibleCharactersIsRedacted(t *testing.T) {
	t.Parallel()
	secret := "ghp_0123456789abcdefghijABCDEFGHIJ012345"
	for _, split := range []string{"\u00ad", "\u200b", "\u2061", "\u0600", "\x01", "\ufe0f"} {
		got := withoutSecrets("Use " + secret[:12] + split + secret[12:])
		require.NotContains(t, got, secret[12:], "%q", split)
		require.NotContains(t, defused(got), secret[12:], "%q", split)
	}
}

func TestNoHostileTextInACommitMessageGainsAnything(t *testing.T) {
	t.Parallel()
	for _, e := range hostile.Corpus(hostile.Default()) {
		for _, text := range []string{e.Text, "Fix it\n\n" + e.Text, e.Text + e.Text, "Closes " + e.Text, "[" + e.Text + "]"} {
			got := defused(text)
			require.Empty(t, hostile.InPlain(got), "%s/%s: %q", e.Category, e.Name, text)
			oneLine := strings.Join(strings.Fields(got), " ") // the subject
			require.Empty(t, hostile.InPlain(oneLine), "%s/%s: %q", e.Category, e.Name, text)
			require.Equal(t, got, defused(got), "once more")
			require.Empty(t, hostile.InTerminal(printable(text)))
		}
	}
}

func TestTheCommitOfARepairSaysWhatItsAgentDid(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"": "Fix the tester failure",
		"Renamed Foo to Bar. The callers follow.": "Renamed Foo to Bar",
		"  Renamed\tFoo:\nmore":                   "Renamed Foo",
		strings.Repeat("ü", 200):                  strings.Repeat("ü", maxSubject-1) + "…",
		"Use v1.2 of the parser":                  "Use v1.2 of the parser",
	} {
		output, err := json.Marshal(contract.HealOutput{Message: "the Repair agent patched the code", Said: said})
		require.NoError(t, err)
		step := healed([]store.HealEvent{{Number: 3, Phase: contract.PhaseTester, ErrorType: contract.ClassAssertion, RootCause: "rename it\nplease", HealOutput: output}}, "heal-3")
		require.Equal(t, want, step.Name)
		require.LessOrEqual(t, utf8.RuneCountInString(step.Name), maxSubject)
		require.Contains(t, step.Description, "ASSERTION_ERROR: rename it")
		if said != "" && said != want {
			require.Contains(t, step.Description, strings.TrimSpace(said), "the body has all of it")
		}
	}
}

func TestTheCommitForACommentSaysWhatThePersonAskedFor(t *testing.T) {
	t.Parallel()
	comment := contract.CheckMessage{Kind: contract.CheckComment, Summary: "ann wrote on pull request 7.", Details: "> Use x\n\n@rgpt: please\u202e name it\tin full, fixes #3\nand more"}
	heal := store.HealEvent{Number: 3, Phase: contract.PhaseTester, ErrorType: contract.ClassAssertion, RootCause: "> Use x"}
	for said, want := range map[string]contract.Step{
		"":                  {Name: "please name it in full, fixes #3", Description: "A reviewer asked: please name it in full, fixes #3"},
		"Renamed x. It is.": {Name: "Renamed x", Description: "Renamed x. It is.\n\nA reviewer asked: please name it in full, fixes #3"},
	} {
		var err error
		heal.HealOutput, err = json.Marshal(contract.HealOutput{Said: said, Asked: asked(comment)})
		require.NoError(t, err)
		require.Equal(t, want, healed([]store.HealEvent{heal}, "heal-3"))
	}
	require.Equal(t, "x", asked(contract.CheckMessage{Summary: "x"}))
	require.Empty(t, asked(contract.CheckMessage{Details: "> quoted\n@rgpt"}))
}

func TestNoCharacterHidesASecretInAnUpdateMerge(t *testing.T) {
	t.Parallel()
	a := &Activities{}
	const secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
	for _, table := range []*unicode.RangeTable{unicode.Cf, unicode.Cc} {
		rangetable.Visit(table, func(r rune) {
			split := secret[:12] + string(r) + secret[12:]
			for _, release := range []contract.ReleaseSettings{{}, {Push: true}} {
				m := a.updateOf(1, contract.Repo{}, release, "rgpt/run-1", contract.BranchUpdate{Into: split, Conflicts: []string{split}}).Message
				require.NotContains(t, m.Subject+m.Body, secret, "%U", r)
			}
			require.NotContains(t, terminal.OneLine(telemetry.Redact(split)), secret, "%U", r)
		})
	}
}
