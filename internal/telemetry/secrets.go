package telemetry

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// RegisterSecret makes Redact remove these values from now on, including their URL and JSON
// encodings. Values shorter than 6 characters and plain words ("postgres") are skipped, because
// removing them would remove ordinary text. When they are used as a secret, the rules for names and
// URLs remove them.
func RegisterSecret(values ...string) { registered.add(values...) }

const minSecretLength = 6

// secretSet is read far more often than it is written.
type secretSet struct {
	writing sync.Mutex
	values  atomic.Pointer[[]string] // longest first
}

var registered secretSet

func (r *secretSet) add(values ...string) {
	r.writing.Lock()
	defer r.writing.Unlock()
	var all []string
	if old := r.values.Load(); old != nil {
		all = slices.Clone(*old)
	}
	for _, v := range values {
		if v = strings.TrimSpace(v); distinctive(v) {
			all = append(all, formsOf(v)...)
		}
	}
	// Longest first, so that a secret is not partially replaced by one that it contains.
	slices.SortFunc(all, func(a, b string) int {
		if d := len(b) - len(a); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	all = slices.Compact(all)
	r.values.Store(&all)
}

// distinctive reports whether a value can be distinguished from ordinary text.
func distinctive(v string) bool {
	const shortWord = 12
	if len(v) < minSecretLength || strings.Contains(Redacted, v) {
		return false
	}
	return len(v) >= shortWord || strings.Trim(v, "abcdefghijklmnopqrstuvwxyz") != ""
}

// formsOf returns a value in plain, URL and JSON encoding.
func formsOf(v string) []string {
	out := []string{v, url.QueryEscape(v), url.PathEscape(v), url.UserPassword("", v).String()[1:]}
	if quoted, err := json.Marshal(v); err == nil {
		out = append(out, string(quoted[1:len(quoted)-1]))
	}
	return out
}

func (r *secretSet) redact(s string) string {
	values := r.values.Load()
	if values == nil {
		return s
	}
	for _, v := range *values {
		if len(v) <= len(s) && strings.Contains(s, v) {
			s = strings.ReplaceAll(s, v, Redacted)
		}
	}
	return s
}

// settled returns the length of a text without the beginning of a registered value at its end.
func (r *secretSet) settled(s string) int {
	longest := 0
	if values := r.values.Load(); values != nil {
		for _, v := range *values {
			for n := min(len(v)-1, len(s)); n > longest; n-- {
				if s[len(s)-n:] == v[:n] {
					longest = n
				}
			}
		}
	}
	return len(s) - longest
}
