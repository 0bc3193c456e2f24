package main

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v3"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/gate/gatetest"
)

//go:embed data
var data embed.FS

// Half says what a patch of the corpus may be used for.
type Half string

// The halves.
const (
	Tuned Half = "tuned" // guards were improved with it
	Held  Half = "held"  // it was only used for the report
)

// halfOf assigns a patch by a digest of its name.
func halfOf(name string) Half {
	if sum := sha256.Sum256([]byte("half of " + name)); sum[0]&1 == 0 {
		return Tuned
	}
	return Held
}

// Source is where a patch comes from.
type Source string

// The sources.
const (
	Written         Source = "written"
	Mutation        Source = "mutation"
	Commit          Source = "commit"
	CommitMutation  Source = "commit mutation"
	HarmlessWritten Source = "harmless"
)

// Patch is a labelled change.
type Patch struct {
	Name   string
	Source Source
	Half   Half
	Change change.Change
	// Guard must find the patch with one of Rules (or any, if there are none), with at least Severity,
	// and, if Path is set, in that file. An empty Guard means that the patch is harmless.
	Guard    string
	Class    string
	Rules    []string
	Severity contract.Severity
	Path     string
	// About is the only guard whose alarms count for a harmless patch that was written for that guard.
	About string
	// Original are the findings about the change without the mutation, which do not count.
	Original []change.Finding
}

// entry is a patch as it is written in the data files.
type entry struct {
	Name     string            `yaml:"name"`
	Guard    string            `yaml:"guard"`
	Class    string            `yaml:"class"`
	Rules    []string          `yaml:"rules"`
	Severity contract.Severity `yaml:"severity"`
	Path     string            `yaml:"path"`
	Before   map[string]string `yaml:"before"`
	Files    map[string]string `yaml:"files"`
	Delete   []string          `yaml:"delete"`
	Links    map[string]string `yaml:"links"`
	Modes    map[string]string `yaml:"modes"`
	Labels   []string          `yaml:"labels"`
	Texts    map[string]string `yaml:"texts"`
	Author   string            `yaml:"author"`
	// Text in File is short for one file with a text.
	File string `yaml:"file"`
	Text string `yaml:"text"`
	// Fill repeats the text of File up to a number of bytes.
	Fill int `yaml:"fill"`
}

// Base returns the small repository that the written patches change.
func Base() (gatetest.Tree, error) {
	raw, err := data.ReadFile("data/base.yaml")
	if err != nil {
		return nil, err
	}
	var tree gatetest.Tree
	if err := yaml.Unmarshal(raw, &tree); err != nil {
		return nil, fmt.Errorf("read data/base.yaml: %w", err)
	}
	return tree, nil
}

// Own returns the patches that are in this repository, in order of their names: those that were
// written and the mutations of Base.
func Own() ([]Patch, error) {
	base, err := Base()
	if err != nil {
		return nil, err
	}
	var out []Patch
	files, err := data.ReadDir("data")
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if f.Name() == "base.yaml" || path.Ext(f.Name()) != ".yaml" {
			continue
		}
		raw, err := data.ReadFile("data/" + f.Name())
		if err != nil {
			return nil, err
		}
		var entries []entry
		if err := yaml.Unmarshal(raw, &entries); err != nil {
			return nil, fmt.Errorf("read data/%s: %w", f.Name(), err)
		}
		for _, e := range entries {
			p, err := e.patch(base)
			if err != nil {
				return nil, fmt.Errorf("data/%s: %s: %w", f.Name(), e.Name, err)
			}
			if p.Source = Written; strings.HasPrefix(f.Name(), "harmless") {
				p.Source, p.About, p.Guard = HarmlessWritten, e.Guard, ""
			}
			out = append(out, p)
		}
	}
	out = append(out, mutationsOf(base)...)
	slices.SortStableFunc(out, func(a, b Patch) int { return strings.Compare(a.Name, b.Name) })
	for i := 1; i < len(out); i++ {
		if out[i].Name == out[i-1].Name {
			return nil, fmt.Errorf("two patches have the name %s", out[i].Name)
		}
	}
	return out, nil
}

// patch makes the patch of an entry.
func (e entry) patch(base gatetest.Tree) (Patch, error) {
	before, err := e.expand(e.Before)
	if err != nil {
		return Patch{}, err
	}
	if e.File != "" {
		e.Files = map[string]string{e.File: e.Text}
	}
	files, err := e.expand(e.Files)
	if err != nil {
		return Patch{}, err
	}
	texts, err := e.expand(e.Texts)
	if err != nil {
		return Patch{}, err
	}
	old := maps.Clone(base)
	maps.Copy(old, before)
	tree := maps.Clone(old)
	for p, text := range files {
		if e.Fill > 0 && text != "" {
			text = strings.Repeat(text, e.Fill/len(text)+1)
		}
		tree[p] = text
	}
	for _, pattern := range e.Delete {
		for p := range old {
			if ok, err := path.Match(pattern, p); err == nil && ok || strings.HasSuffix(pattern, "/") && strings.HasPrefix(p, pattern) {
				delete(tree, p)
			}
		}
	}
	c := gatetest.Between(old, tree)
	for p, target := range e.Links {
		c.Files = append(c.Files, change.File{Path: p, After: gatetest.Entry(change.ModeLink, target)})
	}
	for p, mode := range e.Modes {
		c.Files = withMode(c.Files, p, change.Mode(mode), old, tree)
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		c.Texts = append(c.Texts, change.Text{Name: name, Content: texts[name]})
	}
	c.Labels = e.Labels
	if e.Author != "" {
		c.Author = change.Role(e.Author)
	}
	return Patch{
		Name: e.Name, Half: halfOf(e.Name), Change: limited(c), Guard: e.Guard, Class: e.Class, Rules: e.Rules, Severity: e.Severity, Path: e.Path,
	}, nil
}

// withMode gives an entry of a change another mode.
func withMode(files []change.File, p string, mode change.Mode, old, tree gatetest.Tree) []change.File {
	v := gatetest.Entry(mode, tree[p])
	for i, f := range files {
		if f.Path == p {
			files[i].After = v
			return files
		}
	}
	f := change.File{Path: p, After: v}
	if text, existed := old[p]; existed {
		f.Before = gatetest.File(text)
	}
	return append(files, f)
}

// limited sorts the entries of a change, and gives it the limits of the default configuration.
func limited(c change.Change) change.Change {
	slices.SortFunc(c.Files, func(a, b change.File) int { return strings.Compare(a.Path, b.Path) })
	cfg := config.Default()
	l := cfg.Gate.Limits
	c.Limits = change.Limits{
		Files: l.Files, Deletions: l.Deletions, Lines: l.Lines, FileBytes: l.FileBytes.Int64(), Bytes: l.Bytes.Int64(), Protected: cfg.Git.Protected,
		Labels: change.Labels{Automerge: cfg.Gate.Labels.Automerge, NeedsApproval: cfg.Gate.Labels.Review, Blocked: cfg.Gate.Labels.Blocked},
	}
	return c
}

// The alphabets of random values.
var alphabets = map[string]string{
	"lower": "abcdefghijklmnopqrstuvwxyz", "digits": "0123456789", "hex": "0123456789abcdef", "base32": "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
	"alnum":  "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
	"word":   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-",
	"upper":  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
	"bech32": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
	"base64": "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/",
}

// expand fills in random values, such as <% alnum 36 %>. Secrets are made here, so that scanners of
// this repository find none. The same entry always has the same values.
func (e entry) expand(texts map[string]string) (map[string]string, error) {
	out := map[string]string{}
	for _, p := range slices.Sorted(maps.Keys(texts)) {
		text := texts[p]
		name, err := e.fill(p)
		if err == nil {
			out[name], err = e.fill(text)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// fill fills in the random values of one text.
func (e entry) fill(text string) (string, error) {
	if !strings.Contains(text, "<%") {
		return text, nil
	}
	r := randomOf(e.Name)
	funcs := template.FuncMap{
		"b64":  func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
		"hexa": func(s string) string { return hex.EncodeToString([]byte(s)) },
		"der":  r.der,
		"wide": func(s string) string { return strings.Join(strings.Split(s, ""), "\x00") },
		"escaped": func(s string) string {
			out := ""
			for _, b := range []byte(s) {
				out += fmt.Sprintf(`\x%02x`, b)
			}
			return out
		},
	}
	for name, alphabet := range alphabets {
		funcs[name] = func(n int) string { return r.of(alphabet, n) }
	}
	t, err := template.New("").Delims("<%", "%>").Funcs(funcs).Parse(text)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = t.Execute(&b, nil)
	return b.String(), err
}

// random makes values that depend only on a seed.
type random struct{ *rand.Rand }

func randomOf(seed string) random {
	return random{rand.New(rand.NewChaCha8(sha256.Sum256([]byte(seed))))}
}

// of returns n characters of an alphabet.
func (r random) of(alphabet string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(b)
}

// pick returns one of several values.
func pick[T any](r random, values ...T) T { return values[r.IntN(len(values))] }
