// Package refactor finds changes to the API of a repository that the plan does not announce: SafeRefactor.
//
// The API is what other repositories can use: exported Go declarations outside of internal and main
// packages, exports of JavaScript and TypeScript modules, public names of Python modules, and public
// types, functions and methods of Java, Kotlin, C#, Rust, PHP and Ruby. Go is read by its own parser;
// the others by the symbols of package extract. Nothing is compiled, so types are compared as they are
// written. Test code is no API.
//
//	rule                severity  meaning, and what to do
//	refactor/removed    major     an exported function, type, method or field is gone: keep it, or say so
//	                              in the plan
//	                    medium    the same for a variable or constant
//	                    minor     the same for a method that its type may inherit
//	refactor/renamed    major     the same, and something new in its place has the same signature
//	refactor/file       major     a file with exported names is deleted or moved: keep its names at the
//	                              old place, or say so in the plan
//	refactor/signature  medium    a parameter was removed, added without a default or has another type,
//	                              or the result has another type: keep callers working
//	                    minor     only a parameter's name has changed, or only an annotation
//	refactor/requires   medium    an interface requires a new method of those that implement it
//	refactor/announced  minor     one of these, which the plan mentions by the name or the file
//	refactor/unreachable minor    one of these, of which nothing outside of the repository can make use:
//	                              its package is private, or has no entry that leads to it
package refactor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/pin"
	"github.com/rocketgpt/orchestrator/internal/pin/language"
)

// name is the value of Finding.Guard.
const name = "refactor"

// The rules.
const (
	RuleRemoved     = "removed"
	RuleRenamed     = "renamed"
	RuleFile        = "file"
	RuleSignature   = "signature"
	RuleRequires    = "requires"
	RuleAnnounced   = "announced"
	RuleUnreachable = "unreachable"
)

// The limits of what is read.
const (
	maxFileBytes = 512 << 10 // of a source file
	maxSource    = 24 << 20  // of all
	maxSiblings  = 200       // unchanged files of a package
)

// Guard finds changes to the API that the plan does not announce.
var Guard change.Guard = guard{}

type guard struct{}

// Name returns "refactor".
func (guard) Name() string { return name }

// Judge returns what it found, in order of path and line.
func (guard) Judge(ctx context.Context, c change.Change) ([]change.Finding, error) {
	j := &judge{ctx: ctx, change: c, before: api{}, after: api{}, reach: newReach(ctx, c.Base)}
	if err := j.read(); err != nil {
		return nil, err
	}
	if err := j.compare(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(j.found, func(a, b change.Finding) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Message, b.Message))
	})
	return j.found, nil
}

// api is the exported symbols of each scope, by their key. A scope is what code imports: a package or a
// module. A key has several symbols if functions are overloaded or files are for several systems.
type api map[string]*scope

type scope struct {
	language string
	dir      string
	symbols  map[string][]symbol
	// opaque says that the scope may export more than is known, such as all of another module.
	opaque bool
	// passed are the names that the scope exports of other modules.
	passed map[string]bool
	files  []string
}

func (a api) scope(id, lang, file string) *scope {
	s := a[id]
	if s == nil {
		s = &scope{language: lang, dir: path.Dir(file), symbols: map[string][]symbol{}, passed: map[string]bool{}}
		a[id] = s
	}
	s.files = append(s.files, file)
	return s
}

func (s *scope) add(x symbol) { s.symbols[x.key()] = append(s.symbols[x.key()], x) }

// symbol is one exported definition.
type symbol struct {
	name, parent string
	kind         string // such as "function"
	path         string
	line         int
	shape        shape
}

// key is the name within a scope.
func (x symbol) key() string {
	if x.parent == "" {
		return x.name
	}
	return x.parent + "." + x.name
}

// shape is what users of a symbol depend on, besides its name.
type shape struct {
	known      bool
	params     []param
	result     string // "": none, or not written
	text       string // of anything else than a function: its type
	alias      bool   // it is another name for something elsewhere
	open       bool   // it has members of other types, which are not known
	closed     bool   // an interface that only its own package can implement
	positional bool   // parameters have no names for callers
	typed      bool   // types are checked before the program runs
	inherits   bool   // it is a class that may have members of another one
}

// param is a parameter.
type param struct {
	name, typ string
	optional  bool
	variadic  bool
}

// judge compares two versions of the API.
type judge struct {
	ctx           context.Context
	change        change.Change
	before, after api
	reach         *reach
	found         []change.Finding
	bytes         int
}

// notAPI are folders whose code nothing imports.
var notAPI = []string{
	"testdata", "vendor", "node_modules", "third_party", "examples", "example", "docs", "doc", "scripts", "benches", "bench",
	"benchmark", "benchmarks", "testing", "fixtures", "playground", "samples", "demo", "demos", "dist", "tools", "hack", ".github", "docs_src", "migrations", "testutil", "testutils", "mocks", "generated",
}

// isAPI reports whether the file at a path may contain API.
func isAPI(p string) bool {
	if at := packages.FindStringIndex(p); at != nil {
		// The folders below are the name of a package, such as com.example.tools.
		above := p[:at[0]] + "/"
		return !pin.OfTests(p) && !language.InFolder(above, notAPI) && !language.InFolder(above, language.TestFolders)
	}
	return !pin.OfTests(p) && !language.InFolder(p, notAPI) && !language.InFolder(p, language.TestFolders) && !strings.Contains(strings.ToLower(path.Base(p)), ".min.")
}

// packages matches the folder in which Maven and Gradle have the packages of published code.
var packages = regexp.MustCompile(`(?:^|/)src/main/(?:java|kotlin)/`)

// read reads both versions of all changed files.
func (j *judge) read() error {
	for _, f := range j.change.Files {
		if err := j.ctx.Err(); err != nil {
			return err
		}
		if f.Before.Digest == f.After.Digest && f.Path == f.OldPath() {
			continue
		}
		j.side(j.before, f.OldPath(), f.Before)
		j.side(j.after, f.Path, f.After)
	}
	return nil
}

func (j *judge) side(a api, p string, v change.Version) {
	if !v.Regular() || v.Binary() || len(v.Content) > maxFileBytes || !isAPI(p) {
		return
	}
	if j.bytes += len(v.Content); j.bytes > maxSource {
		return
	}
	if path.Ext(p) == ".go" {
		readGo(a, p, v.Content)
		return
	}
	readSymbols(a, p, v.Content)
}

// compare compares the scopes.
func (j *judge) compare() error {
	for _, id := range slices.Sorted(maps.Keys(j.before)) {
		if err := j.ctx.Err(); err != nil {
			return err
		}
		b, a := j.before[id], j.after[id]
		if a == nil {
			a = &scope{symbols: map[string][]symbol{}, passed: map[string]bool{}}
		}
		if len(b.symbols) == 0 {
			continue
		}
		if len(a.files) == 0 && !b.many() {
			j.reportFile(b)
			continue
		}
		lost := j.lost(b, a)
		if b.language == "go" && len(lost) > 0 {
			if err := j.addSiblings(b, a); err != nil {
				return err
			}
			if len(a.symbols) == 0 { // the package is gone
				j.reportFile(b)
				continue
			}
			lost = j.lost(b, a)
		}
		j.reportLost(b, a, lost)
		j.reportChanged(b, a)
	}
	return nil
}

// many reports whether several files make up the scope, so that one file of it can be gone.
func (s *scope) many() bool {
	switch s.language {
	case "go", "java", "kotlin", "csharp", "php", "ruby":
		return true
	}
	return false
}

// lost returns the keys of symbols that are gone, except for members of a type that is gone.
func (j *judge) lost(b, a *scope) (keys []string) {
	for _, k := range slices.Sorted(maps.Keys(b.symbols)) {
		x := b.symbols[k][0]
		if len(a.symbols[k]) > 0 || a.passed[x.name] || a.opaque && x.parent == "" {
			continue
		}
		if x.parent != "" {
			owner, was := a.symbols[x.parent], b.symbols[x.parent]
			if len(was) > 0 && len(owner) == 0 {
				continue // its type is gone
			}
			if slices.ContainsFunc(owner, func(o symbol) bool { return o.shape.alias || o.shape.open }) {
				continue // it may be there by another way
			}
		}
		keys = append(keys, k)
	}
	return keys
}

// addSiblings adds to a scope the symbols of its unchanged Go files: those for other systems may have the
// same ones.
func (j *judge) addSiblings(b, a *scope) error {
	if j.change.Tree == nil {
		return nil
	}
	names, err := j.reach.folder(b.dir)
	if err != nil {
		return err
	}
	changed := map[string]bool{}
	for _, f := range j.change.Files {
		changed[f.OldPath()], changed[f.Path] = true, true
	}
	for i, p := range names {
		if i >= maxSiblings || changed[p] || path.Ext(p) != ".go" || !isAPI(p) {
			continue
		}
		content, ok, err := j.change.Tree.Read(j.ctx, p, maxFileBytes)
		if err != nil {
			return err
		}
		if j.bytes += len(content); !ok || j.bytes > maxSource {
			continue
		}
		other := api{}
		readGo(other, p, content)
		for _, s := range other {
			for k, list := range s.symbols {
				a.symbols[k] = append(a.symbols[k], list...)
			}
		}
	}
	return nil
}

// reportFile reports a file that is gone, with the place where its names are now.
func (j *judge) reportFile(b *scope) {
	keys := slices.DeleteFunc(slices.Sorted(maps.Keys(b.symbols)), func(k string) bool { return strings.Contains(k, ".") })
	if len(keys) == 0 {
		return
	}
	x := b.symbols[keys[0]][0]
	to, all := "", true
	for _, id := range slices.Sorted(maps.Keys(j.after)) {
		if a := j.after[id]; len(a.symbols[keys[0]]) > 0 && a.language == b.language {
			to = a.files[0]
			for _, k := range keys {
				all = all && len(a.symbols[k]) > 0
			}
			break
		}
	}
	what := fmt.Sprintf("%s is deleted with %s, which it exports", change.Clean(x.path), listed(keys))
	if to != "" && all {
		what = fmt.Sprintf("%s, which exports %s, moved to %s", change.Clean(x.path), listed(keys), change.Clean(to))
	}
	j.report(RuleFile, contract.SeverityMajor, symbol{name: keys[0], path: x.path}, what, "keep its names at the old place, or say so in the plan", keys...)
}

// listed names the first of some names, and how many more there are.
func listed(names []string) string {
	const most = 3
	out := change.Clean(strings.Join(names[:min(len(names), most)], ", "))
	if more := len(names) - most; more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	return out
}

// reportLost reports symbols that are gone, and what may be their new names.
func (j *judge) reportLost(b, a *scope, lost []string) {
	used := map[string]bool{}
	for _, k := range lost {
		x := b.symbols[k][0]
		if to := newName(b, a, x, used, len(lost)); to != nil {
			used[to.key()] = true
			j.report(RuleRenamed, contract.SeverityMajor, x,
				fmt.Sprintf("the exported %s %s is gone; %s, which is new, looks like its new name", x.kind, change.Clean(k), change.Clean(to.key())),
				"keep the old name for callers that use it, or say so in the plan", x.name)
			continue
		}
		severity := contract.SeverityMajor
		if x.kind == "variable" || x.kind == "constant" {
			severity = contract.SeverityMedium
		}
		where := ""
		if slices.ContainsFunc(a.symbols[x.parent], func(o symbol) bool { return o.shape.inherits }) {
			severity, where = contract.SeverityMinor, ", unless its type inherits it"
		}
		if to := j.elsewhere(x, b); to != "" {
			where = "; " + change.Clean(to) + " now has one of that name"
		}
		j.report(RuleRemoved, severity, x, fmt.Sprintf("the exported %s %s is gone%s", x.kind, change.Clean(k), where), "keep it, or say so in the plan", x.name)
	}
}

// newName returns a new symbol of the same kind and owner whose signature is that of a lost one, or the
// only candidate.
func newName(b, a *scope, x symbol, used map[string]bool, lost int) *symbol {
	var only *symbol
	candidates := 0
	for _, k := range slices.Sorted(maps.Keys(a.symbols)) {
		y := a.symbols[k][0]
		if len(b.symbols[k]) > 0 || used[k] || y.kind != x.kind || y.parent != x.parent {
			continue
		}
		if x.shape.known && (len(x.shape.params) > 0 || x.shape.result != "" || x.shape.text != "") && why(x.shape, y.shape) == "" {
			return &y
		}
		only = &y
		candidates++
	}
	if candidates == 1 && lost == 1 && x.path == only.path {
		return only
	}
	return nil
}

// elsewhere returns a file of another scope with a symbol of the same name that is new.
func (j *judge) elsewhere(x symbol, b *scope) string {
	for _, id := range slices.Sorted(maps.Keys(j.after)) {
		a := j.after[id]
		if a.language != b.language || len(a.symbols[x.key()]) == 0 {
			continue
		}
		if was := j.before[id]; was == nil || len(was.symbols[x.key()]) == 0 {
			return a.symbols[x.key()][0].path
		}
	}
	return ""
}

// reportChanged reports symbols that users must use differently, and interfaces that require more.
func (j *judge) reportChanged(b, a *scope) {
	for _, k := range slices.Sorted(maps.Keys(b.symbols)) {
		was, is := b.symbols[k], a.symbols[k]
		for _, x := range was {
			if len(is) == 0 {
				break
			}
			reason, y := closest(x, is)
			if reason == "" {
				continue
			}
			severity := contract.SeverityMedium
			if strings.HasPrefix(reason, mild) {
				severity, reason = contract.SeverityMinor, reason[len(mild):]
			}
			x.line, x.path = y.line, y.path
			j.report(RuleSignature, severity, x, fmt.Sprintf("the exported %s %s has changed: %s", x.kind, change.Clean(k), reason), "keep callers working, or say so in the plan", x.name)
			break
		}
	}
	for _, k := range slices.Sorted(maps.Keys(a.symbols)) {
		x := a.symbols[k][0]
		owner := b.symbols[x.parent]
		if x.kind != requirement || len(owner) == 0 || len(b.symbols[k]) > 0 || owner[0].shape.closed || !strings.HasSuffix(owner[0].shape.text, "interface") {
			continue
		}
		j.report(RuleRequires, contract.SeverityMedium, x, fmt.Sprintf("the interface %s requires a new method %s", change.Clean(x.parent), change.Clean(x.name)),
			"add another interface, or say so in the plan", x.name, x.parent)
	}
}

// requirement is the kind of a method of a Go interface.
const requirement = "interface method"

// closest returns why none of several versions of a symbol can be used like another one, or "".
func closest(x symbol, versions []symbol) (reason string, of symbol) {
	of = versions[0]
	for i, y := range versions {
		r := why(x.shape, y.shape)
		if r == "" {
			return "", y
		}
		if i == 0 || len(y.shape.params) == len(x.shape.params) {
			reason, of = r, y
		}
	}
	return reason, of
}

// report adds a finding. What the plan mentions by one of some names or by the file, or what nothing
// can use, is minor.
func (j *judge) report(rule string, severity contract.Severity, x symbol, what, advice string, names ...string) {
	message := what + "; " + advice
	switch {
	case j.announced(x.path, names):
		rule, severity, message = RuleAnnounced, contract.SeverityMinor, what+", as the plan says"
	case severity != contract.SeverityMinor && !j.reach.reachable(x):
		rule, severity, message = RuleUnreachable, contract.SeverityMinor, what+"; nothing outside of the repository can use it"
	}
	line := x.line
	if rule == RuleFile {
		line = 0
	}
	j.found = append(j.found, change.Finding{Guard: name, Rule: rule, Path: x.path, Line: line, Severity: severity, Message: message})
}

// announced reports whether the plan mentions a file, or something by one of its names.
func (j *judge) announced(file string, names []string) bool {
	p := j.change.Plan
	if slices.Contains(p.Files, file) || mentions(p.Text, file) || mentions(p.Text, path.Base(file)) {
		return true
	}
	return slices.ContainsFunc(names, func(n string) bool { return mentions(p.Text, n) })
}

// mentions reports whether a text contains a name that is not a part of a longer one.
func mentions(text, name string) bool {
	if len(name) < 2 {
		return false
	}
	for at := 0; ; {
		i := strings.Index(text[at:], name)
		if i < 0 {
			return false
		}
		i += at
		end := i + len(name)
		if (i == 0 || !wordByte(text[i-1])) && (end == len(text) || !wordByte(text[end])) {
			return true
		}
		at = i + 1
	}
}

func wordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}
