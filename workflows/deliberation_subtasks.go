package workflows

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
)

// decompose takes GAMMA's subtasks, for ALPHA and BETA to solve in the order of
// their dependencies. Another decomposition replaces the one before; what was
// proposed for a subtask that it keeps stays.
func (c *council) decompose(s *seat, m contract.Move, now time.Time) string {
	if why := c.wrongParts(m.Subtasks); why != "" {
		return why
	}
	before := c.parts
	c.parts = slices.Clone(m.Subtasks)
	for i := range c.parts {
		c.parts[i].Status = contract.SubtaskWaiting
	}
	why := c.written(s, contract.Entry{Section: contract.SectionProblem, Key: contract.KeySubtasks, Kind: m.Kind, Value: m.Text, Subtasks: slices.Clone(c.parts)}, now)
	if why != "" {
		c.parts = before
	}
	return why
}

// wrongParts says why subtasks cannot be taken.
func (c *council) wrongParts(parts []contract.Subtask) string {
	if len(parts) == 0 || len(parts) > contract.Subtasks {
		return fmt.Sprintf("it needs 1 to %d subtasks", contract.Subtasks)
	}
	ids := map[string]bool{}
	for _, t := range parts {
		other, _ := c.nameable(t.ID)
		switch {
		case !validKey(t.ID):
			return fmt.Sprintf("the id of a subtask has 1 to %d letters, digits, dots, dashes and underscores", keyLength)
		case ids[t.ID]:
			return fmt.Sprintf("there are two subtasks %s", t.ID)
		case t.Description == "" || len(t.Description) > contract.SubtaskLength:
			return fmt.Sprintf("subtask %s needs a description of at most %d bytes", t.ID, contract.SubtaskLength)
		case t.Member != "" && !slices.Contains(peers(), t.Member):
			return fmt.Sprintf("subtask %s is for ALPHA or BETA, or for whoever is free", t.ID)
		case other != nil && c.part(t.ID) == nil:
			return fmt.Sprintf("there is a %s on the blackboard; name the subtask otherwise", t.ID)
		}
		ids[t.ID] = true
	}
	for _, t := range parts {
		for _, d := range t.Dependencies {
			if !ids[d] {
				return fmt.Sprintf("subtask %s depends on %q, which is none", t.ID, d[:min(len(d), keyLength)])
			}
		}
	}
	if n := size(parts); n > contract.SubtasksSize {
		return fmt.Sprintf("its subtasks take %d bytes, more than the %d allowed; describe them in fewer words", n, contract.SubtasksSize)
	}
	return circle(parts)
}

// hasUntold reports whether a member is to solve a subtask that it was not told of.
func (c *council) hasUntold(s *seat) bool {
	return slices.ContainsFunc(c.partsOf(s.member), func(id string) bool { return !slices.Contains(s.parts, id) })
}

// partsFor are the subtasks as a member is told of them: with their descriptions where
// those are new to it, or its own to solve.
func (c *council) partsFor(s *seat, fresh bool) []contract.Subtask {
	out := slices.Clone(c.parts)
	for i := range out {
		if mine := out[i].Member == s.member && out[i].Status == contract.SubtaskAssigned; !fresh && !mine {
			out[i].Description = ""
		}
	}
	return out
}

// circle says which subtasks wait for each other, "" if none do.
func circle(parts []contract.Subtask) string {
	done := map[string]bool{}
	for range parts {
		for _, t := range parts {
			if !slices.ContainsFunc(t.Dependencies, func(d string) bool { return !done[d] }) {
				done[t.ID] = true
			}
		}
	}
	var stuck []string
	for _, t := range parts {
		if !done[t.ID] {
			stuck = append(stuck, t.ID)
		}
	}
	if len(stuck) == 0 {
		return ""
	}
	return "these subtasks wait for each other: " + strings.Join(stuck, ", ")
}

// part returns the subtask with an id, nil if there is none.
func (c *council) part(id string) *contract.Subtask {
	for i := range c.parts {
		if c.parts[i].ID == id {
			return &c.parts[i]
		}
	}
	return nil
}

// assign brings the subtasks up to date: which are done, and who is to take those
// that nothing keeps waiting any more.
func (c *council) assign() {
	changed := false
	for i := range c.parts {
		t := &c.parts[i]
		status, owner := c.standing(*t)
		if status == t.Status && owner == t.Member {
			continue
		}
		t.Status, t.Member, changed = status, owner, true
	}
	if p := c.at(contract.SectionProblem, contract.KeySubtasks); changed && p != nil {
		p.Subtasks = slices.Clone(c.parts)
		c.show(p)
	}
}

// standing says how far a subtask is, and whose it is.
func (c *council) standing(t contract.Subtask) (status string, owner contract.Member) {
	if c.solved(t.ID) {
		return contract.SubtaskDone, t.Member
	}
	if slices.ContainsFunc(t.Dependencies, func(d string) bool { return !c.solved(d) }) {
		return contract.SubtaskWaiting, t.Member
	}
	if s := c.seat(t.Member); s != nil && !s.dead {
		return contract.SubtaskAssigned, t.Member
	}
	return contract.SubtaskAssigned, c.leastBusy()
}

// solved reports whether there is a proposal for a subtask.
func (c *council) solved(id string) bool {
	p, _ := c.nameable(id)
	return p != nil && p.Kind == contract.MovePropose && p.State != contract.EntryWithdrawn
}

// leastBusy returns the peer that is left with the fewest subtasks to solve now; of
// two the one that fewer wait for.
func (c *council) leastBusy() contract.Member {
	load := func(m contract.Member) (n int) {
		for _, t := range c.parts {
			switch {
			case t.Member != m:
			case t.Status == contract.SubtaskAssigned:
				n += len(c.parts)
			case t.Status == contract.SubtaskWaiting:
				n++
			}
		}
		return n
	}
	var owner contract.Member
	for _, s := range c.livingPeers() {
		if owner == "" || load(s.member) < load(owner) {
			owner = s.member
		}
	}
	return owner
}

// partsOf returns the subtasks that a member is to solve now.
func (c *council) partsOf(m contract.Member) []string {
	var out []string
	for _, t := range c.parts {
		if t.Status == contract.SubtaskAssigned && t.Member == m {
			out = append(out, t.ID)
		}
	}
	return out
}

// propose writes a proposal. One under the id of a subtask solves that: it is taken
// from whose subtask it is, or was when the member was told, once those that it
// depends on are solved.
func (c *council) propose(s *seat, m contract.Move, now time.Time) string {
	if t := c.part(m.Key); t != nil {
		switch {
		case t.Status == contract.SubtaskWaiting:
			return fmt.Sprintf("subtask %s waits for others (%s)", t.ID, strings.Join(t.Dependencies, ", "))
		case t.Status == contract.SubtaskAssigned && t.Member != s.member && !slices.Contains(s.parts, t.ID):
			return fmt.Sprintf("subtask %s is %s's; propose under another key", t.ID, t.Member)
		}
	}
	return c.put(s, contract.SectionSolutions, m, now)
}
