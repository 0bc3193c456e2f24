// Package state is the state of a merge queue and its decisions: which pull requests are tested
// together, what follows from the result, and what a command changes. It has no side effects.
package state

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// Limits of what is carried when the workflow continues as new.
const (
	keptIDs      = 100 // ids of commands that were applied
	knownTrees   = 12  // whose checks ended
	maxWaiting   = 150 // bytes of the reason why an entry waits
	maxReason    = 300 // bytes of other reasons
	maxName      = 100 // bytes of a name
	maxTitle     = 100 // bytes of a title
	maxURL       = 300 // bytes of an address
	maxReference = 64  // bytes of the id of a command
)

// Queue is a merge queue. Its exported fields are carried when the workflow continues as new.
type Queue struct {
	Ref     contract.QueueRef     `json:"ref"`
	Policy  contract.MergePolicy  `json:"policy"`
	Entries []contract.QueueEntry `json:"entries"` // that have not ended, by place
	Paused  *contract.QueuePaused `json:"paused,omitempty"`
	// Suspects are pull requests that failed together: one of them is tested alone in the end.
	Suspects []int64 `json:"suspects,omitempty"`
	// Known are the last trees whose checks ended: the same tree need not be checked again.
	Known   []Known  `json:"known,omitempty"`
	Applied []string `json:"applied,omitempty"` // ids of commands, oldest first
	Last    int64    `json:"last"`              // place that was given last
	Version int64    `json:"version"`

	saved    int64                   // version that was stored
	ended    []contract.QueueEntry   // and not stored yet
	commands []contract.QueueCommand // that were not stored yet
	runs     int
	decided  int
	first    bool
}

// New returns the empty queue of a branch. Versions begin with the time, so that they grow from one
// execution of a queue to the next.
func New(ref contract.QueueRef, now time.Time) *Queue {
	start := now.UnixMilli()
	return &Queue{Ref: ref, Version: start, saved: start, first: true}
}

// Restore returns the queue that an earlier execution carried over, all of which is stored.
func Restore(data []byte) (*Queue, error) {
	q := &Queue{}
	if err := json.Unmarshal(data, q); err != nil {
		return nil, fmt.Errorf("read the state of the merge queue: %w", err)
	}
	q.saved = q.Version
	return q, nil
}

// Known is the result of the checks of a tree.
type Known struct {
	Tree   string               `json:"tree"`
	Result contract.QueueChecks `json:"result"`
}

// Empty reports whether nothing is left to do.
func (q *Queue) Empty() bool { return len(q.Entries) == 0 && q.Paused == nil }

// touch notes a change of an entry.
func (q *Queue) touch(e *contract.QueueEntry) {
	q.Version++
	e.Version = q.Version
}

func (q *Queue) find(number int64) *contract.QueueEntry {
	for i := range q.Entries {
		if q.Entries[i].Number == number {
			return &q.Entries[i]
		}
	}
	return nil
}

// Entry returns a pull request that has not left the queue.
func (q *Queue) Entry(number int64) (contract.QueueEntry, bool) {
	if e := q.find(number); e != nil {
		return *e, true
	}
	return contract.QueueEntry{}, false
}

// Position returns the place of a pull request among those in the queue, from 1; 0 if it is not there.
func (q *Queue) Position(number int64) int {
	return 1 + slices.IndexFunc(q.Entries, func(e contract.QueueEntry) bool { return e.Number == number })
}

func (q *Queue) sort() {
	slices.SortFunc(q.Entries, func(a, b contract.QueueEntry) int { return cmp.Compare(a.Place, b.Place) })
}

// end removes an entry from the queue.
func (q *Queue) end(number int64, as contract.QueueState, reason, commit string) {
	e := q.find(number)
	if e == nil {
		return
	}
	e.State, e.Reason, e.Commit = as, fault.Clip(reason, maxReason), commit
	q.touch(e)
	q.ended = append(q.ended, *e)
	q.Entries = slices.DeleteFunc(q.Entries, func(e contract.QueueEntry) bool { return e.Number == number })
	q.Suspects = slices.DeleteFunc(q.Suspects, func(n int64) bool { return n == number })
}

// set changes the state of an entry.
func (q *Queue) set(number int64, to contract.QueueState, reason string) {
	reason = fault.Clip(reason, maxWaiting)
	if e := q.find(number); e != nil && (e.State != to || e.Reason != reason) {
		e.State, e.Reason = to, reason
		q.touch(e)
	}
}

// Return removes a pull request from the queue that cannot be merged. It returns its entry.
func (q *Queue) Return(number int64, reason string) contract.QueueEntry {
	q.end(number, contract.QueueReturned, reason, "")
	return q.lastEnded(number)
}

func (q *Queue) lastEnded(number int64) contract.QueueEntry {
	for _, e := range slices.Backward(q.ended) {
		if e.Number == number {
			return e
		}
	}
	return contract.QueueEntry{}
}

// spare is how many times as many pull requests as are tested together are looked at, because some of them
// may be returned at once.
const spare = 3

// Next returns the pull requests to be tested together, in the order of their merges, at most most of
// them: the first half of those of which one fails, or else the first ones that wait. skip are those that
// cannot be tested now.
func (q *Queue) Next(skip map[int64]bool) (numbers []int64, most int) {
	if n := len(q.Suspects); n > 0 {
		n = max(n/2, 1)
		return slices.Clone(q.Suspects[:n]), n
	}
	most = max(q.Policy.Batch, 1)
	for _, e := range q.Entries {
		if len(numbers) < spare*most && !skip[e.Number] {
			numbers = append(numbers, e.Number)
		}
	}
	return numbers, most
}

// Built notes what became of a candidate. It returns the parts that are tested, and the entries that
// were returned.
func (q *Queue) Built(c contract.QueueCandidate) (tested []contract.QueuePart, returned []contract.QueueEntry) {
	for _, p := range c.Parts {
		e := q.find(p.Number)
		if e == nil {
			continue // a person removed it meanwhile
		}
		e.Head = p.Head
		switch p.Verdict {
		case contract.QueueIncluded:
			e.Batch = c.Branch
			q.set(p.Number, contract.QueueTesting, "")
			tested = append(tested, p)
		case contract.QueueDeferred, contract.QueueNotYet:
			q.set(p.Number, contract.QueueWaiting, p.Reason)
			q.Suspects = slices.DeleteFunc(q.Suspects, func(n int64) bool { return n == p.Number })
		case contract.QueueIsMerged:
			q.end(p.Number, contract.QueueMerged, p.Reason, p.Commit)
		default:
			returned = append(returned, q.Return(p.Number, p.Reason))
		}
	}
	return tested, returned
}

// Complete reports whether the candidate is still what is to be merged: no command has removed, moved or
// paused one of its parts.
func (q *Queue) Complete(tested []contract.QueuePart) bool {
	return !slices.ContainsFunc(tested, func(p contract.QueuePart) bool {
		e := q.find(p.Number)
		return e == nil || e.State == contract.QueueWaiting
	})
}

// Result returns the result of the checks of a tree, if it is known.
func (q *Queue) Result(tree string) (contract.QueueChecks, bool) {
	for _, k := range q.Known {
		if k.Tree == tree {
			return k.Result, true
		}
	}
	return contract.QueueChecks{}, false
}

// Learn notes the result of the checks of a tree. One that has not ended is not kept.
func (q *Queue) Learn(tree string, r contract.QueueChecks) {
	if r.Result == contract.QueuePending {
		return
	}
	r.Reason = fault.Clip(r.Reason, maxReason)
	q.Known = append(slices.DeleteFunc(q.Known, func(k Known) bool { return k.Tree == tree }), Known{tree, r})
	q.Known = q.Known[max(0, len(q.Known)-knownTrees):]
}

// Ran notes that the checks of a candidate ran.
func (q *Queue) Ran() {
	q.Version++
	q.runs++
}

// Failed notes that the checks of a candidate failed. It returns the pull request that is returned
// because it failed alone.
func (q *Queue) Failed(tested []contract.QueuePart, reason string) (returned []contract.QueueEntry) {
	if len(tested) == 1 {
		q.decided++
		e := q.Return(tested[0].Number, reason)
		// What the others of its group are like is not known: they are tested with the next ones.
		q.Release()
		return []contract.QueueEntry{e}
	}
	q.Suspects = nil
	for _, p := range tested {
		q.Suspects = append(q.Suspects, p.Number)
		q.set(p.Number, contract.QueueWaiting, "it failed together with others; the failing one is being searched for")
	}
	return nil
}

// Release ends a search: all pull requests are tested with those that follow them.
func (q *Queue) Release() { q.Suspects = nil }

// Wait lets parts of a candidate wait for their next test.
func (q *Queue) Wait(parts []contract.QueuePart, reason string) {
	for _, p := range parts {
		q.set(p.Number, contract.QueueWaiting, reason)
	}
}

// Merging notes that a pull request is merged next.
func (q *Queue) Merging(number int64) { q.set(number, contract.QueueMerging, "") }

// Merged notes that a pull request was merged.
func (q *Queue) Merged(number int64, commit, note string) {
	q.decided++
	q.end(number, contract.QueueMerged, note, commit)
}

// Pause stops the queue because something outside of it failed.
func (q *Queue) Pause(by, reason string, at time.Time) {
	q.Version++
	q.Paused = &contract.QueuePaused{By: fault.Clip(by, maxName), Reason: fault.Clip(reason, maxReason), At: at}
	for i := range q.Entries {
		if q.Entries[i].State != contract.QueueWaiting {
			q.set(q.Entries[i].Number, contract.QueueWaiting, "")
		}
	}
}

// Check returns why a command cannot be applied, nil if it can. It changes nothing.
func (q *Queue) Check(c contract.QueueCommand) error {
	refuse := func(format string, args ...any) error {
		return fault.New(contract.ClassHuman, contract.CodeRejected, format, args...)
	}
	if c.ID == "" || len(c.ID) > maxReference {
		return refuse("the id of the command has %d bytes; expected 1 to %d", len(c.ID), maxReference)
	}
	if slices.Contains(q.Applied, c.ID) {
		return nil
	}
	e := q.find(c.Number)
	switch c.Action {
	case contract.QueueAdd:
		switch {
		case c.Number <= 0 || c.Policy == nil:
			return refuse("the command names no pull request, or no policy")
		case e == nil && len(q.Entries) >= contract.MaxQueued:
			return refuse("the merge queue of %s is full: it has %d pull requests; try again later", q.Ref, len(q.Entries))
		}
	case contract.QueueRemove, contract.QueueSkip:
		if e == nil {
			return refuse("pull request %d is not in the merge queue of %s", c.Number, q.Ref)
		}
		if e.State == contract.QueueMerging {
			return refuse("pull request %d is being merged", c.Number)
		}
	case contract.QueuePause, contract.QueueResume:
	default:
		return refuse("%q is not a command of a merge queue", fault.Clip(string(c.Action), maxName))
	}
	return nil
}

// Apply applies a command that Check accepts, and answers it.
func (q *Queue) Apply(c contract.QueueCommand, now time.Time) contract.QueueAck {
	if slices.Contains(q.Applied, c.ID) {
		return contract.QueueAck{Position: q.Position(c.Number), Message: "the command was applied already"}
	}
	q.Applied = append(q.Applied, c.ID)
	q.Applied = q.Applied[max(0, len(q.Applied)-keptIDs):]
	c.By, c.Reason = fault.Clip(c.By, maxName), fault.Clip(c.Reason, maxReason)
	c.Title, c.URL = fault.Clip(c.Title, maxTitle), fault.Clip(c.URL, maxURL)
	ack := q.apply(c, now)
	if ack.Applied {
		c.Policy, c.Title, c.URL = nil, "", "" // the entry has them
		q.Version++
		q.commands = append(q.commands, c)
	}
	return ack
}

func (q *Queue) apply(c contract.QueueCommand, now time.Time) contract.QueueAck {
	because := ""
	if c.Reason != "" {
		because = ": " + c.Reason
	}
	switch c.Action {
	case contract.QueueAdd:
		return q.add(c, now)
	case contract.QueueRemove:
		q.end(c.Number, contract.QueueReturned, fmt.Sprintf("%s removed it from the queue%s", cmp.Or(c.By, "a client"), because), "")
		return contract.QueueAck{Applied: true, Message: fmt.Sprintf("pull request %d was removed", c.Number)}
	case contract.QueueSkip:
		e := q.find(c.Number)
		q.Last++
		e.Place, e.State, e.Reason = q.Last, contract.QueueWaiting, fault.Clip("it was moved to the end"+because, maxWaiting)
		q.touch(e)
		q.Suspects = slices.DeleteFunc(q.Suspects, func(n int64) bool { return n == c.Number })
		q.sort()
		return contract.QueueAck{Applied: true, Position: q.Position(c.Number), Message: fmt.Sprintf("pull request %d was moved to the end", c.Number)}
	case contract.QueuePause:
		q.Pause(cmp.Or(c.By, "a client"), c.Reason, now)
		return contract.QueueAck{Applied: true, Message: "the queue is paused; what is being merged still is"}
	default:
		was := q.Paused != nil
		q.Paused = nil
		if !was {
			return contract.QueueAck{Message: "the queue was not paused"}
		}
		return contract.QueueAck{Applied: true, Message: "the queue continues"}
	}
}

func (q *Queue) add(c contract.QueueCommand, now time.Time) contract.QueueAck {
	q.Policy = *c.Policy
	if q.find(c.Number) != nil {
		return contract.QueueAck{Position: q.Position(c.Number), Message: fmt.Sprintf("pull request %d is in the queue already", c.Number)}
	}
	q.Last++
	q.Entries = append(q.Entries, contract.QueueEntry{
		Key: c.ID, Number: c.Number, Title: c.Title, URL: c.URL, RunID: c.RunID, AddedBy: c.By, AddedAt: now, Place: q.Last, State: contract.QueueWaiting,
	})
	q.touch(&q.Entries[len(q.Entries)-1])
	return contract.QueueAck{Applied: true, Position: q.Position(c.Number), Message: fmt.Sprintf("pull request %d was added", c.Number)}
}

// maxSaved is the number of entries that are stored at a time: they must fit into a payload.
const maxSaved = 20

// Unsaved returns what has changed since the last call, and whether anything has. more says that the
// rest must be stored by another call.
func (q *Queue) Unsaved() (out contract.QueueSave, changed, more bool) {
	if q.Version == q.saved {
		return contract.QueueSave{}, false, false
	}
	out = contract.QueueSave{Queue: q.Ref, Version: q.Version, First: q.first, Paused: q.Paused, Runs: q.runs, Decided: q.decided}
	q.first = false
	n := min(len(q.ended), maxSaved)
	out.Entries, q.ended = q.ended[:n:n], q.ended[n:]
	n = min(len(q.commands), maxSaved)
	out.Commands, q.commands = q.commands[:n:n], q.commands[n:]
	changes := slices.Clone(q.Entries)
	slices.SortFunc(changes, func(a, b contract.QueueEntry) int { return cmp.Compare(a.Version, b.Version) })
	upTo := q.Version
	for _, e := range changes {
		if e.Version <= q.saved {
			continue
		}
		if len(out.Entries) >= maxSaved {
			upTo, more = e.Version-1, true
			break
		}
		out.Entries = append(out.Entries, e)
		own := q.find(e.Number)
		own.Title, own.URL, own.AddedBy = "", "", "" // stored once
	}
	if len(q.ended) > 0 || len(q.commands) > 0 {
		upTo, more = min(upTo, q.Version-1), true
	}
	q.saved, q.runs, q.decided = upTo, 0, 0
	return out, true, more
}
