package state

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
)

// decompose records GAMMA's subtasks, which ALPHA and BETA solve in the order of their
// dependencies. A new decomposition replaces the previous one; proposals for subtasks that both
// contain are kept.
func (c *State) decompose(s *Participant, m contract.Move, now time.Time) string {
	if why := c.invalidSubtasks(m.Subtasks); why != "" {
		return why
	}
	before := c.subtasks
	c.subtasks = slices.Clone(m.Subtasks)
	for i := range c.subtasks {
		c.subtasks[i].Status = contract.SubtaskWaiting
	}
	why := c.written(s, contract.Entry{Section: contract.SectionProblem, Key: contract.KeySubtasks, Kind: m.Kind, Value: m.Text, Subtasks: slices.Clone(c.subtasks)}, now)
	if why != "" {
		c.subtasks = before
	}
	return why
}

// invalidSubtasks returns why subtasks are not valid.
func (c *State) invalidSubtasks(parts []contract.Subtask) string {
	if len(parts) == 0 || len(parts) > contract.Subtasks {
		return fmt.Sprintf("it needs 1 to %d subtasks", contract.Subtasks)
	}
	ids := map[string]bool{}
	for _, t := range parts {
		other, _ := c.nameable(t.ID)
		switch {
		case !validKey(t.ID):
			return fmt.Sprintf("the id of a subtask must be 1 to %d characters long: letters, digits, dots, dashes or underscores", KeyLength)
		case ids[t.ID]:
			return fmt.Sprintf("two subtasks have the id %s", t.ID)
		case t.Description == "" || len(t.Description) > contract.SubtaskLength:
			return fmt.Sprintf("subtask %s needs a description of at most %d bytes", t.ID, contract.SubtaskLength)
		case t.Member != "" && !slices.Contains(Peers(), t.Member):
			return fmt.Sprintf("the member for subtask %s must be ALPHA or BETA, or empty to allow either", t.ID)
		case other != nil && c.subtask(t.ID) == nil:
			return fmt.Sprintf("%s is already on the blackboard; use another id for the subtask", t.ID)
		}
		ids[t.ID] = true
	}
	for _, t := range parts {
		for _, d := range t.Dependencies {
			if !ids[d] {
				return fmt.Sprintf("subtask %s depends on %q, which is not a subtask", t.ID, d[:min(len(d), KeyLength)])
			}
		}
	}
	if n := size(parts); n > contract.SubtasksSize {
		return fmt.Sprintf("its subtasks total %d bytes, more than the %d allowed; describe them in fewer words", n, contract.SubtasksSize)
	}
	return cycle(parts)
}

// hasUnseenSubtask reports whether a member must solve a subtask that it has not been shown.
func (c *State) hasUnseenSubtask(s *Participant) bool {
	return slices.ContainsFunc(c.subtasksOf(s.Member), func(id string) bool { return !slices.Contains(s.seenSubtasks, id) })
}

// subtasksFor returns the subtasks to show to a member, with the descriptions of those that are new
// to it or assigned to it.
func (c *State) subtasksFor(s *Participant, fresh bool) []contract.Subtask {
	out := slices.Clone(c.subtasks)
	for i := range out {
		if mine := out[i].Member == s.Member && out[i].Status == contract.SubtaskAssigned; !fresh && !mine {
			out[i].Description = ""
		}
	}
	return out
}

// cycle describes the subtasks that wait for each other, "" if none do.
func cycle(parts []contract.Subtask) string {
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
	return "these subtasks depend on each other: " + strings.Join(stuck, ", ")
}

// subtask returns the subtask with an id, nil if there is none.
func (c *State) subtask(id string) *contract.Subtask {
	for i := range c.subtasks {
		if c.subtasks[i].ID == id {
			return &c.subtasks[i]
		}
	}
	return nil
}

// assign updates the status of the subtasks and assigns those that are ready.
func (c *State) assign() {
	changed := false
	for i := range c.subtasks {
		t := &c.subtasks[i]
		status, owner := c.statusOf(*t)
		if status == t.Status && owner == t.Member {
			continue
		}
		t.Status, t.Member, changed = status, owner, true
	}
	if p := c.at(contract.SectionProblem, contract.KeySubtasks); changed && p != nil {
		p.Subtasks = slices.Clone(c.subtasks)
		c.show(p)
	}
}

// statusOf returns the status and the owner of a subtask.
func (c *State) statusOf(t contract.Subtask) (status string, owner contract.Member) {
	if c.solved(t.ID) {
		return contract.SubtaskDone, t.Member
	}
	if slices.ContainsFunc(t.Dependencies, func(d string) bool { return !c.solved(d) }) {
		return contract.SubtaskWaiting, t.Member
	}
	if s := c.Participant(t.Member); s != nil && !s.Dead {
		return contract.SubtaskAssigned, t.Member
	}
	return contract.SubtaskAssigned, c.leastBusy()
}

// solved reports whether there is a proposal for a subtask.
func (c *State) solved(id string) bool {
	p, _ := c.nameable(id)
	return p != nil && p.Kind == contract.MovePropose && p.State != contract.EntryWithdrawn
}

// leastBusy returns the remaining peer with the fewest subtasks to solve now; in a tie, the one
// with fewer waiting subtasks.
func (c *State) leastBusy() contract.Member {
	load := func(m contract.Member) (n int) {
		for _, t := range c.subtasks {
			switch {
			case t.Member != m:
			case t.Status == contract.SubtaskAssigned:
				n += len(c.subtasks)
			case t.Status == contract.SubtaskWaiting:
				n++
			}
		}
		return n
	}
	var owner contract.Member
	for _, s := range c.livingPeers() {
		if owner == "" || load(s.Member) < load(owner) {
			owner = s.Member
		}
	}
	return owner
}

// subtasksOf returns the subtasks that a member must solve now.
func (c *State) subtasksOf(m contract.Member) []string {
	var out []string
	for _, t := range c.subtasks {
		if t.Status == contract.SubtaskAssigned && t.Member == m {
			out = append(out, t.ID)
		}
	}
	return out
}

// propose writes a proposal. A proposal under the id of a subtask solves it: it is
// accepted from the subtask's owner, or from its owner at the time the member was
// informed, once the subtasks that it depends on are solved.
func (c *State) propose(s *Participant, m contract.Move, now time.Time) string {
	if t := c.subtask(m.Key); t != nil {
		switch {
		case t.Status == contract.SubtaskWaiting:
			return fmt.Sprintf("subtask %s is waiting for other subtasks (%s)", t.ID, strings.Join(t.Dependencies, ", "))
		case t.Status == contract.SubtaskAssigned && t.Member != s.Member && !slices.Contains(s.seenSubtasks, t.ID):
			return fmt.Sprintf("subtask %s is assigned to %s; make your proposal under another key", t.ID, t.Member)
		}
	}
	return c.put(s, contract.SectionSolutions, m, now)
}
