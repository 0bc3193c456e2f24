package state

import (
	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

const (
	// decisionBytes bounds each list of a decision.
	decisionBytes = 4 << 10
	// rejectedFor is the number of objections, the latest ones, that a decision keeps for each
	// rejected entry.
	rejectedFor = 3
	// rejectedText is the number of bytes that a decision keeps of a rejected entry, and of each
	// objection to it. The blackboard has the full texts.
	rejectedText = 200
)

// decide summarizes the choice, the reasons for it and the objections to it. Call it once
// everything else is settled.
func (c *State) decide(chosen *post, how *Choice) *contract.Decision {
	d := &contract.Decision{Key: how.Key, Version: how.Version, By: how.By, Text: chosen.versions[how.Version-1]}
	within := c.sources(how.Key)
	for _, p := range c.board {
		switch {
		case p.Kind == contract.MoveEvaluate && p.About == how.Key:
			d.Reasons = append(d.Reasons, remark(p))
		case p.Kind == contract.MoveObject && within[p.About] && p.State == contract.EntrySettled:
			d.OpenQuestions = append(d.OpenQuestions, remark(p))
		case p != chosen && (p.State == contract.EntryWithdrawn || p.State == contract.EntrySettled) && (p.Kind == contract.MovePropose || p.Kind == contract.MoveSynthesise):
			d.Rejected = append(d.Rejected, contract.Alternative{Key: p.Key, Author: p.Author, State: p.State, Text: beginning(p.Value), Against: c.against(p)})
		}
	}
	for _, v := range c.votes {
		if v.Key != how.Key || v.Version != how.Version {
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
	if how.text.Size > 0 { // last, so that it is kept when older reasons are omitted
		d.Reasons = append(d.Reasons, contract.Remark{By: how.By, About: how.Key, Text: how.text})
	}
	var n [4]int
	d.Reasons, n[0] = newest(d.Reasons, decisionBytes)
	d.Rejected, n[1] = newest(d.Rejected, decisionBytes)
	d.OpenQuestions, n[2] = newest(d.OpenQuestions, decisionBytes)
	d.Remarks, n[3] = newest(d.Remarks, decisionBytes)
	d.Note = leftOut(n[0], "reasons", n[1], "rejected alternatives", n[2], "open questions", n[3], "remarks")
	return d
}

// sources returns the keys of an entry and of all entries that it was created from, directly or
// indirectly.
func (c *State) sources(key string) map[string]bool {
	found := map[string]bool{}
	for next := []string{key}; len(next) > 0; next = next[1:] {
		p, _ := c.nameable(next[0])
		if p == nil || found[p.Key] {
			continue
		}
		found[p.Key] = true
		next = append(next, p.From...)
	}
	return found
}

// against returns the objections to an entry.
func (c *State) against(p *post) []contract.Remark {
	var out []contract.Remark
	for _, key := range p.own {
		if o := c.at(p.Section, key); o != nil {
			r := remark(o)
			r.Text = beginning(r.Text)
			out = append(out, r)
		}
	}
	return out[max(0, len(out)-rejectedFor):]
}

// beginning returns the head of a text.
func beginning(t contract.Text) contract.Text {
	t.Head = fault.Clip(t.Head, rejectedText)
	return t
}

func remark(p *post) contract.Remark {
	return contract.Remark{By: p.Author, About: p.About, Score: p.Score, Text: p.Value}
}

// voters returns the members that accept the chosen entry.
func (c *State) voters(of *Choice) []contract.Member {
	out := []contract.Member{}
	for _, v := range c.votes {
		if v.Key == of.Key && v.Version == of.Version && v.Accept {
			out = append(out, v.Voter)
		}
	}
	return out
}
