package choice_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/runs/choice"
)

func candidate(number, lines int) choice.Candidate {
	return choice.Candidate{Number: number, RunID: int64(40 + number), Tree: string(rune('a' + number)), Lines: lines}
}

func TestTheBestAttemptIsFoundByChecksThenSizeThenAJudge(t *testing.T) {
	t.Parallel()
	warned := candidate(1, 10)
	warned.Medium = 1
	failed := candidate(2, 5)
	failed.Major = 1
	same := candidate(2, 100)
	same.Tree = candidate(1, 100).Tree
	for name, c := range map[string]struct {
		all    []choice.Candidate
		winner int64
		rule   string
		equal  []int64
	}{
		"none passed":                      {nil, 0, contract.RuleNone, nil},
		"only one passed":                  {[]choice.Candidate{candidate(3, 900)}, 43, contract.RuleOnly, nil},
		"fewer findings beat a small size": {[]choice.Candidate{warned, candidate(2, 500)}, 42, contract.RuleFindings, nil},
		"major findings count first":       {[]choice.Candidate{warned, failed}, 41, contract.RuleFindings, nil},
		"the same change":                  {[]choice.Candidate{same, candidate(1, 100)}, 41, contract.RuleSame, nil},
		"much smaller":                     {[]choice.Candidate{candidate(1, 200), candidate(2, 100)}, 42, contract.RuleSize, nil},
		"about equally large":              {[]choice.Candidate{candidate(1, 120), candidate(2, 100), candidate(3, 400)}, 42, contract.RuleSize, []int64{42, 41}},
		"a few lines are nothing":          {[]choice.Candidate{candidate(1, 2), candidate(2, 7)}, 41, contract.RuleSize, []int64{41, 42}},
		"one copy of equal changes":        {[]choice.Candidate{candidate(1, 100), same, candidate(3, 101)}, 41, contract.RuleSize, []int64{41, 43}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := choice.Rank(c.all, 0.25)
			require.Equal(t, c.winner, got.Winner)
			require.Equal(t, c.rule, got.Rule)
			require.Equal(t, c.equal, got.Equal)
			require.NotEmpty(t, got.Reason)
		})
	}
}

func TestTheOrderOfAttemptsDoesNotMatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var all []choice.Candidate
		for i := range rapid.IntRange(0, 6).Draw(t, "attempts") {
			c := candidate(i+1, rapid.IntRange(0, 40).Draw(t, "lines"))
			c.Medium = rapid.IntRange(0, 1).Draw(t, "findings")
			all = append(all, c)
		}
		shuffled := rapid.Permutation(all).Draw(t, "order")
		require.Equal(t, choice.Rank(all, 0.25), choice.Rank(shuffled, 0.25))
	})
}
