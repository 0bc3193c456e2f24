package secrets

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// Guard is the guard. It is safe for concurrent use.
var Guard change.Guard = guard{}

type guard struct{}

const name = "secrets"

func (guard) Name() string { return name }

// The rules of findings.
const (
	RuleToken      = "token"
	RulePrivateKey = "private-key"
	RuleCredential = "credential"
	RuleJWT        = "jwt"
	RuleURL        = "url"
	RuleAssignment = "assignment"
	RuleKeystore   = "keystore"
	RuleUnexamined = "unexamined"
)

// maxCandidates limits the secrets that are compared with the base.
const maxCandidates = 400

// candidate is a possible secret.
type candidate struct {
	rule, form string
	value      string // the secret; never part of a finding
	line       int
	how        string // how it is hidden, if it is
}

// Judge returns the secrets of a change.
func (guard) Judge(ctx context.Context, c change.Change) ([]change.Finding, error) {
	known, err := rules()
	if err != nil {
		return nil, err
	}
	s := &search{rules: known, left: maxRegexBytes}
	base := &base{files: c.Files}
	var out []change.Finding
	for _, f := range c.Files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		out = append(out, s.file(f, base)...)
	}
	for _, t := range c.Texts {
		found := s.text(wholeText(telemetry.Visible(t.Content)), hiddenIn(t.Content), profile{prose: true})
		for _, x := range distinct(found) {
			finding := x.finding("", grade(x, false))
			title, _ := s.cleanPath(t.Name)
			finding.Message = "in the " + change.Clean(title) + ": " + finding.Message
			out = append(out, finding)
		}
	}
	if s.skipped {
		out = append(out, change.Finding{Guard: name, Rule: RuleUnexamined, Severity: contract.SeverityMedium,
			Message: "the change has so much text with the words of credentials that only a part was examined for credentials without a format of their own; split the change or review it"})
	}
	slices.SortStableFunc(out, func(a, b change.Finding) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line))
	})
	return out, nil
}

// file returns the secrets that a change of a file adds.
func (s *search) file(f change.File, before *base) []change.Finding {
	if f.Deleted() {
		return nil
	}
	path, named := s.cleanPath(f.Path)
	var out []change.Finding
	if named && !f.Before.Exists() {
		out = append(out, change.Finding{Guard: name, Rule: RuleToken, Path: path, Severity: contract.SeverityMajor,
			Message: "the path of this file contains a token: rename the file and revoke the token"})
	}
	if f.Added() && keystore(f.Path) {
		out = append(out, change.Finding{Guard: name, Rule: RuleKeystore, Path: path, Severity: lower(contract.SeverityMedium, fixture(f.Path)),
			Message: "files with this name hold private keys: remove it unless it is made for tests"})
	}
	if f.Before.Digest == f.After.Digest {
		return out
	}
	if f.After.Unread {
		return append(out, change.Finding{Guard: name, Rule: RuleUnexamined, Path: path, Severity: contract.SeverityMedium,
			Message: fmt.Sprintf("the file has %d bytes, which is too large to be examined for secrets: review it", f.After.Size)})
	}
	found := distinct(s.version(f))
	for _, x := range found[:min(len(found), maxCandidates)] {
		severity := grade(x, fixture(f.Path))
		if before.has(x) {
			severity = contract.SeverityMinor
			x.how += "; it is not new, because a changed file had it"
		}
		out = append(out, x.finding(path, severity))
	}
	return out
}

// version returns the candidates in what a change adds to a file.
func (s *search) version(f change.File) []candidate {
	if !f.After.Regular() {
		return s.text(wholeText(telemetry.Visible(string(f.After.Content))), false, profile{binary: true})
	}
	if f.After.Binary() {
		// Text in UTF-16 has zero bytes, without which it is text.
		plain := string(bytes.ReplaceAll(f.After.Content, []byte{0}, nil))
		if f.Before.Binary() && bytes.Equal(f.Before.Content, f.After.Content) {
			return nil
		}
		found := s.text(wholeText(plain), false, profile{binary: true})
		for i := range found {
			found[i].line = 0
		}
		return found
	}
	t := addedText(f)
	found := s.text(t, t.hidden, profileOf(f.Path))
	return append(found, keysAcross(f)...)
}

// finding describes a candidate without its value.
func (x candidate) finding(path string, severity contract.Severity) change.Finding {
	what := map[string]string{
		RuleToken:      "a token of the form %s; remove it and revoke it, because it counts as disclosed",
		RulePrivateKey: "a private key of the form %s; remove it and replace the key, because it counts as disclosed",
		RuleCredential: "a credential of the form %s; remove it and revoke it, or use an obvious placeholder",
		RuleJWT:        "a signed token of the form %s; remove it and revoke it, or make it when the test runs",
		RuleURL:        "a password of the form %s; load it from the environment",
		RuleAssignment: "a value of the form %s; load it from the environment, or use an obvious placeholder",
	}[x.rule]
	return change.Finding{
		Guard: name, Rule: x.rule, Path: path, Line: x.line, Severity: severity, Message: fmt.Sprintf(what, x.form) + x.how,
	}
}

// grade is the severity of a secret that is new.
func grade(x candidate, fixture bool) contract.Severity {
	switch x.rule {
	case RuleToken:
		return contract.SeverityMajor
	case RulePrivateKey:
		return lower(contract.SeverityMajor, fixture)
	}
	return lower(contract.SeverityMedium, fixture)
}

func lower(s contract.Severity, by bool) contract.Severity {
	switch {
	case !by:
		return s
	case s == contract.SeverityMajor:
		return contract.SeverityMedium
	}
	return contract.SeverityMinor
}

// distinct keeps one candidate of those on a line that share a value: that of the first rule, in the
// order of their certainty.
func distinct(all []candidate) []candidate {
	order := []string{RulePrivateKey, RuleToken, RuleJWT, RuleCredential, RuleURL, RuleAssignment}
	slices.SortStableFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.rule), slices.Index(order, b.rule)), cmp.Compare(a.line, b.line),
			cmp.Compare(len(a.how), len(b.how)), cmp.Compare(a.form, b.form))
	})
	kept := map[int][]candidate{}
	var out []candidate
	for _, x := range all {
		same := func(k candidate) bool {
			return strings.Contains(k.value, x.value) || strings.Contains(x.value, k.value)
		}
		if len(kept[x.line]) >= maxOfLine || slices.ContainsFunc(kept[x.line], same) {
			continue
		}
		kept[x.line] = append(kept[x.line], x)
		out = append(out, x)
	}
	return out
}

// maxOfLine limits the findings of one line.
const maxOfLine = 5

// base tells whether the changed files have a value before the change.
type base struct{ files []change.File }

func (b *base) has(x candidate) bool {
	value := []byte(x.value)
	for _, f := range b.files {
		if bytes.Contains(f.Before.Content, value) {
			return true
		}
	}
	return false
}

// cleanPath returns a path, or another name, without tokens, and whether it had any.
func (s *search) cleanPath(path string) (string, bool) {
	if !s.named(path) {
		return path, false
	}
	if i := strings.LastIndexByte(path, '/'); i > 0 && !s.named(path[:i]) && s.named(path[i+1:]) {
		return path[:i] + "/" + telemetry.Redacted, true
	}
	return telemetry.Redacted, true
}

// named reports whether a name contains a token.
func (s *search) named(name string) bool {
	c := &collector{t: wholeText(telemetry.Visible(name))}
	s.strong(c)
	s.patterns(c, profile{lock: true})
	return len(c.out) > 0
}
