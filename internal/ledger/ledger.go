// Package ledger checks the audit ledger: an append-only chain of entries that say who did what to
// what. Each entry contains the hash of the one before, so an entry that was edited, deleted, inserted
// or moved breaks the chain where it happened. A signed checkpoint states what the end of the chain was
// at some time; it finds entries that are missing at the end, and a chain that was made again from some
// entry on.
package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// Actor is the kind of an entry's author.
type Actor string

// The kinds of authors.
const (
	Person Actor = "person"
	Agent  Actor = "agent"
	System Actor = "system"
	// Client is a client whose user gave no name: api, dashboard, the command line, or unnamed.
	Client Actor = "client"
)

// Entry is one entry.
type Entry struct {
	Seq   int64     `json:"seq"`
	At    time.Time `json:"at"` // in microseconds
	Actor Actor     `json:"actor"`
	// Name is that of the person, of the agent with its model, or of the part of the system.
	Name   string `json:"name"`
	Action string `json:"action"`
	// Object is what it was done to.
	Object string `json:"object"`
	RunID  int64  `json:"run_id,omitempty"`
	// Details is a JSON document; empty if retention has removed it. Digest is its SHA-256.
	Details  json.RawMessage `json:"details,omitempty"`
	Digest   string          `json:"digest"`
	Previous string          `json:"previous"` // hash of the entry before
	Hash     string          `json:"hash"`
}

// Sum returns the hash that an entry must have: SHA-256 over its fields in the order of the table, with
// the time in microseconds since 1970, each field as its length in bytes, a colon, the text and a line
// feed. Migration 37 has the same formula in SQL.
func (e Entry) Sum() string {
	var text []byte
	for _, field := range []string{
		e.Previous, strconv.FormatInt(e.Seq, 10), strconv.FormatInt(e.At.UnixMicro(), 10), string(e.Actor), e.Name, e.Action, e.Object,
		strconv.FormatInt(e.RunID, 10), e.Digest,
	} {
		text = append(strconv.AppendInt(text, int64(len(field)), 10), ':')
		text = append(append(text, field...), '\n')
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Fault is a place at which a ledger was changed.
type Fault struct {
	Seq  int64  `json:"seq"` // of the entry, or of the first one that is missing
	What string `json:"what"`
}

// Report is the result of a verification.
type Report struct {
	Entries     int64  `json:"entries"`
	Removed     int64  `json:"removed"` // entries whose details retention removed
	Checkpoints int    `json:"checkpoints"`
	Seq         int64  `json:"seq"`  // of the last entry
	Hash        string `json:"hash"` // of the last entry
	// Faults are the first MaxFaults places, in order; Total is their number.
	Faults []Fault `json:"faults"`
	Total  int     `json:"total"`
}

// OK reports whether nothing was changed.
func (r Report) OK() bool { return r.Total == 0 }

// MaxFaults is the maximum number of faults that a report lists.
const MaxFaults = 100

// Verifier checks a ledger entry by entry. Its zero value starts at the beginning.
type Verifier struct {
	Report
	// Trusted are checkpoints with valid signatures, by the number of their entry.
	Trusted map[int64]Checkpoint

	seen map[int64]bool
}

func (v *Verifier) fault(seq int64, format string, args ...any) {
	if v.Total++; v.Total <= MaxFaults {
		v.Faults = append(v.Faults, Fault{Seq: seq, What: fmt.Sprintf(format, args...)})
	}
}

// Add checks the next entry in the order of their numbers. After a fault it continues from the stored
// hash, so that one change is reported once.
func (v *Verifier) Add(e Entry) {
	v.Entries++
	switch {
	case e.Seq <= v.Seq:
		v.fault(e.Seq, "entry %d comes after entry %d", e.Seq, v.Seq)
	case e.Seq == v.Seq+2:
		v.fault(v.Seq+1, "entry %d is missing", v.Seq+1)
	case e.Seq > v.Seq+1:
		v.fault(v.Seq+1, "entries %d to %d are missing", v.Seq+1, e.Seq-1)
	case e.Previous != v.Hash:
		v.fault(e.Seq, "entry %d does not follow the entry before it: one of the two was replaced", e.Seq)
	}
	if e.Hash != e.Sum() {
		v.fault(e.Seq, "entry %d was edited: its hash does not match", e.Seq)
	}
	if len(e.Details) == 0 {
		v.Removed++
	} else if sum := sha256.Sum256(e.Details); hex.EncodeToString(sum[:]) != e.Digest {
		v.fault(e.Seq, "the details of entry %d were edited", e.Seq)
	}
	if c, ok := v.Trusted[e.Seq]; ok {
		v.Checkpoints++
		if c.Hash != e.Hash {
			v.fault(e.Seq, "entry %d differs from the checkpoint of %s: the chain was made again at or before it", e.Seq, c.At.UTC().Format(time.RFC3339))
		}
		if v.seen == nil {
			v.seen = map[int64]bool{}
		}
		v.seen[e.Seq] = true
	}
	v.Seq, v.Hash = e.Seq, e.Hash
}

// End checks the end of the chain against what the database says it is, and against the checkpoints.
func (v *Verifier) End(seq int64, hash string) Report {
	switch {
	case seq > v.Seq:
		v.fault(v.Seq+1, "entries %d to %d are missing at the end", v.Seq+1, seq)
	case seq < v.Seq:
		v.fault(seq+1, "entries %d to %d were appended past the end of the chain", seq+1, v.Seq)
	case hash != v.Hash:
		v.fault(seq, "the end of the chain has another hash than entry %d", seq)
	}
	for n, c := range v.Trusted {
		if !v.seen[n] {
			v.Checkpoints++
			v.fault(n, "entry %d is missing, which the checkpoint of %s has seen", n, c.At.UTC().Format(time.RFC3339))
		}
	}
	if v.Faults == nil {
		v.Faults = []Fault{}
	}
	return v.Report
}
