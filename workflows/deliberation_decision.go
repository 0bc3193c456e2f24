package workflows

import (
	"github.com/rocketgpt/orchestrator/contract"
)

// decisionBytes bounds each list of a decision.
const decisionBytes = 4 << 10

// decide sums up what was chosen, why, and what speaks against it. It is asked once
// everything else is settled.
func (c *council) decide(chosen *post, how *choice) *contract.Decision {
	d := &contract.Decision{Key: how.key, Version: how.version, By: how.by, Text: chosen.versions[how.version-1]}
	if how.text.Size > 0 {
		d.Reasons = append(d.Reasons, contract.Remark{By: how.by, About: how.key, Text: how.text})
	}
	for _, p := range c.board {
		switch {
		case p.Kind == contract.MoveEvaluate && p.About == how.key:
			d.Reasons = append(d.Reasons, remark(p))
		case p.Kind == contract.MoveObject && p.About == how.key && p.State == contract.EntrySettled:
			d.OpenQuestions = append(d.OpenQuestions, remark(p))
		case p != chosen && (p.State == contract.EntryWithdrawn || p.State == contract.EntrySettled) && (p.Kind == contract.MovePropose || p.Kind == contract.MoveSynthesise):
			d.Rejected = append(d.Rejected, contract.Alternative{Key: p.Key, Author: p.Author, State: p.State, Text: p.Value, Against: c.against(p)})
		}
	}
	for _, v := range c.votes {
		if v.Key != how.key || v.Version != how.version {
			continue
		}
		said := contract.Remark{By: v.Voter, About: v.Key, Text: v.Text}
		switch {
		case !v.Accept:
			d.OpenQuestions = append(d.OpenQuestions, said)
		case v.Text.Size > 0:
			d.Remarks = append(d.Remarks, said)
		}
	}
	d.Reasons, _ = newest(d.Reasons, decisionBytes)
	d.Rejected, _ = newest(d.Rejected, decisionBytes)
	d.OpenQuestions, _ = newest(d.OpenQuestions, decisionBytes)
	d.Remarks, _ = newest(d.Remarks, decisionBytes)
	return d
}

// against returns the objections to an entry.
func (c *council) against(p *post) []contract.Remark {
	var out []contract.Remark
	for _, key := range p.own {
		if o := c.at(p.Section, key); o != nil {
			out = append(out, remark(o))
		}
	}
	return out
}

func remark(p *post) contract.Remark {
	return contract.Remark{By: p.Author, About: p.About, Score: p.Score, Text: p.Value}
}

// voters returns who accepts what was chosen.
func (c *council) voters(of *choice) []contract.Member {
	out := []contract.Member{}
	for _, v := range c.votes {
		if v.Key == of.key && v.Version == of.version && v.Accept {
			out = append(out, v.Voter)
		}
	}
	return out
}
