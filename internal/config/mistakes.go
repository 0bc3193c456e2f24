package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// Mistake is one error in the configuration.
type Mistake struct {
	Origin Origin
	Key    string // dotted; empty when it concerns the whole file
	Text   string // the expected value and the value found
}

// String formats a mistake on one line: origin, key, text.
func (m Mistake) String() string {
	parts := []string{m.Text}
	if m.Key != "" && m.Origin.Source != SourceFlag {
		parts = append([]string{m.Key}, parts...)
	}
	if !m.Origin.IsDefault() {
		parts = append([]string{m.Origin.String()}, parts...)
	}
	return strings.Join(parts, ": ")
}

// Error lists every mistake of a configuration. It is a CONFIG_ERROR with code invalid_config.
type Error struct {
	Mistakes []Mistake
}

// Error writes one mistake per line.
func (e *Error) Error() string {
	var b strings.Builder
	if n := len(e.Mistakes); n == 1 {
		b.WriteString("the configuration is invalid:")
	} else {
		fmt.Fprintf(&b, "the configuration has %d errors:", n)
	}
	for _, m := range e.Mistakes {
		b.WriteString("\n  " + m.String())
	}
	return b.String()
}

// Unwrap lets fault.Of see the class and code.
func (e *Error) Unwrap() error {
	return fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "%s", e.Error())
}

// report collects mistakes. They are listed in the order in which layers were read.
type report struct {
	mistakes []Mistake
	layers   []Origin
}

func (r *report) add(o Origin, key, format string, args ...any) {
	r.mistakes = append(r.mistakes, Mistake{Origin: o, Key: key, Text: fmt.Sprintf(format, args...)})
}

// about reports whether a mistake was found at the key or below it.
func (r *report) about(key string) bool {
	return slices.ContainsFunc(r.mistakes, func(m Mistake) bool {
		rest, ok := strings.CutPrefix(m.Key, key)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

// err returns the mistakes in the order of their layers, or nil if there are none.
func (r *report) err() error {
	if len(r.mistakes) == 0 {
		return nil
	}
	place := func(o Origin) int {
		o.Line = 0
		return slices.IndexFunc(r.layers, func(l Origin) bool { return l == o })
	}
	slices.SortStableFunc(r.mistakes, func(a, b Mistake) int {
		if d := place(a.Origin) - place(b.Origin); d != 0 {
			return d
		}
		return cmp.Or(a.Origin.Line-b.Origin.Line, strings.Compare(a.Key, b.Key))
	})
	return &Error{Mistakes: r.mistakes}
}

// layer records that a layer is being read.
func (r *report) layer(o Origin) { r.layers = append(r.layers, o) }
