package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/proxy"
)

// LoadRepository merges the settings of a repository's own rgpt.yaml over the operator's settings.
// A repository is less trusted than the operator:
//
//   - it may set verification, the commands and variables of environment, deliberation.plan_by and
//     git.branch_prefix, git.author_name and git.author_email;
//   - it may select other models for agents, if the operator lists them, and have identical
//     requests of its own runs answered from earlier responses;
//   - it may lower the limits of execution, of findings, of deliberation and of
//     verification.timeout, require more approvals and retests, and be stricter
//     about changed tests and new tests, but not the reverse;
//   - it may make the gate stricter: its policy, limits, labels and allowed paths;
//   - it may let a check reach only hosts that the operator allows for that check
//     or the sandbox, and an installation only those and the public registries;
//   - it may choose an image that the operator allows;
//   - anything else is refused, unless it equals the operator's setting.
//
// Errors are like those of Load and name the file by filename. base is not changed.
func LoadRepository(base *Config, data []byte, filename string) (*Config, error) {
	l := newLoader(base)
	l.repository = true
	l.report.layer(Origin{Source: SourceFile, File: filename})
	if len(data) > maxFile {
		l.report.add(Origin{Source: SourceFile, File: filename}, "", "is larger than %s", Size(maxFile))
		return nil, l.report.err()
	}
	tree, ok := l.decode(data, filename)
	if !ok {
		if err := l.report.err(); err != nil {
			return nil, err
		}
		return base.clone(), nil
	}
	g := guard{loader: l, base: base, who: "a repository"}
	g.check(root(), tree, treeOf(base), "", "")
	l.merge(tree)
	return l.finish()
}

// LoadRequest merges the settings of a run request, by dotted key, over the operator's settings. A
// request may set everything that a repository may, and may also raise the limits of its run. It
// cannot drop approvals or make the rules for tests less strict. All other settings, such as
// providers, the sandbox and storage, are reserved for the operator. Errors are like those of Load.
// base is not changed.
func LoadRequest(base *Config, settings map[string]string) (*Config, error) {
	l := newLoader(base)
	g := guard{loader: l, base: base, who: "a request", limits: true}
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		tree, ok := l.textLayer(Origin{Source: SourceRequest, Name: key}, key, settings[key])
		if !ok {
			continue
		}
		g.check(root(), tree, treeOf(base), "", "")
		l.merge(tree)
	}
	return l.finish()
}

// LoadEnvironment reads the document of a request, which contains only the section environment, in
// the format of `rgpt env show --yaml`, and returns that section merged over the operator's. The
// document may set the same keys as LoadRequest. Errors are like those of Load and name the
// document by name.
func LoadEnvironment(base *Config, data []byte, name string) (Environment, error) {
	const section = "environment"
	l := newLoader(base)
	at := Origin{Source: SourceFile, File: name}
	l.report.layer(at)
	if len(data) > maxFile {
		l.report.add(at, "", "is larger than %s", Size(maxFile))
		return Environment{}, l.report.err()
	}
	tree, ok := l.decode(data, name)
	for _, key := range slices.Sorted(maps.Keys(tree)) {
		if key != section {
			l.report.add(l.origins[key], key, "is not allowed here; only the %s section is read", section)
		}
	}
	if _, given := tree[section]; ok && !given {
		l.report.add(at, "", "has no %s section", section)
	}
	if err := l.report.err(); err != nil {
		return Environment{}, err
	}
	g := guard{loader: l, base: base, who: "a request", limits: true}
	g.check(root(), tree, treeOf(base), "", "")
	l.merge(tree)
	c, err := l.finish()
	if err != nil {
		return Environment{}, err
	}
	return c.Environment, nil
}

// guard rejects values that a repository or a request may not set.
type guard struct {
	*loader
	base   *Config
	who    string
	limits bool // the limits of a run may also be raised
}

// check checks all values that a repository's file sets. trust is the file's right to change the
// section.
func (g *guard) check(s *spec, value, base any, key, trust string) {
	if s.trust != "" {
		trust = s.trust
	}
	if value == nil || reflect.DeepEqual(value, base) {
		return // same as the operator's value
	}
	switch values := value.(type) {
	case map[string]any:
		old, _ := base.(map[string]any)
		for name, v := range values {
			next := s.elem
			if s.kind == kindSection {
				next = s.field(name)
			}
			g.check(next, v, old[name], join(key, name), trust)
		}
		return
	case []any:
		if s.elem.kind == kindSection {
			for i, v := range values {
				g.check(s.elem, v, sameName(v, base), fmt.Sprintf("%s[%d]", key, i), trust)
			}
			return
		}
	}
	if reason := g.refuse(trust, key, value, base); reason != "" {
		g.report.add(g.origins[key], key, "%s", reason)
	}
}

// refuse returns the reason why a repository may not set a value, or an empty string if it may.
func (g *guard) refuse(trust, key string, value, base any) string {
	if g.limits && slices.Contains(ofLimits, trust) {
		return ""
	}
	switch trust {
	case "yes":
		return ""
	case "lower":
		if number(value) <= number(base) {
			return ""
		}
		return g.who + " may lower this but not raise it; the operator's value is " + show(base)
	case "limit", "cap": // cap: not even a request may raise it
		if low, high := number(value), number(base); high == 0 || low != 0 && low <= high {
			return ""
		}
		return g.who + " may lower this limit but not raise it (0 means no limit); the operator's value is " + show(base)
	case "add", "remove", "narrow":
		return g.refuseList(trust, texts(value), texts(base))
	case "stricter":
		if value == true {
			return ""
		}
		return g.who + " may turn this on but not off; the operator's configuration requires it"
	case "raise":
		if number(value) >= number(base) {
			return ""
		}
		return g.who + " may raise this but not lower it; the operator's value is " + show(base)
	case "tighten":
		if slices.Index(strictness, fmt.Sprint(value)) <= slices.Index(strictness, fmt.Sprint(base)) {
			return ""
		}
		return g.who + " may make this stricter but not less strict; the operator's value is " + show(base)
	case "timeout":
		if limit := g.base.Verification.Timeout; number(value) > int64(limit) {
			return fmt.Sprintf("%s may not allow more time than the operator's verification.timeout, %s", g.who, formatDuration(limit))
		}
		return ""
	case "models":
		return g.refuseModel(key, value)
	case "network":
		return g.refuseHosts(value, slices.Concat(g.base.Execution.Sandbox.Network, texts(base)), "in this setting or in execution.sandbox.network")
	case "images":
		return g.refuseImage(value)
	case "builds":
		if value == "" || g.base.Execution.Sandbox.Docker.Build.Enabled {
			return ""
		}
		return g.who + " may have an image built only if the operator allows it with execution.sandbox.docker.build.enabled"
	case "registries":
		return g.refuseHosts(value, slices.Concat(allRegistryHosts(), g.base.Execution.Sandbox.Network, texts(base)), "in this setting; public registries are always allowed")
	default:
		return g.who + " may not set this: " + reasonFor(key)
	}
}

// refuseList rejects a list that is less strict than the operator's: one with less of what is
// forbidden ("add"), or with more of what is allowed ("remove"; "narrow": an empty list allows
// everything).
func (g *guard) refuseList(trust string, value, base []string) string {
	missing := func(from, in []string) (out []string) {
		for _, s := range from {
			if !slices.Contains(in, s) {
				out = append(out, s)
			}
		}
		return out
	}
	switch {
	case trust == "add":
		if left := missing(base, value); len(left) > 0 {
			return fmt.Sprintf("%s may add to this list, but must keep the operator's entries; missing: %s", g.who, strings.Join(left, ", "))
		}
	case trust == "narrow" && len(base) == 0:
	case trust == "narrow" && len(value) == 0:
		return g.who + " may not allow everything here; the operator's list is not empty"
	default:
		if more := missing(value, base); len(more) > 0 {
			return fmt.Sprintf("%s may shorten this list, but not add to it; not in the operator's list: %s", g.who, strings.Join(more, ", "))
		}
	}
	return ""
}

// refuseModel rejects a provider or model that the operator does not list, and so has not agreed to
// pay for.
func (g *guard) refuseModel(key string, value any) string {
	m := g.base.Models
	named := append(slices.Collect(maps.Values(m.Phases)), append(slices.Clone(m.Fallback), m.Default)...)
	if strings.HasSuffix(key, ".effort") {
		return g.refuseEffort(value, named)
	}
	if g.limits || strings.HasSuffix(key, ".temperature") || slices.ContainsFunc(named, func(c Choice) bool {
		return strings.HasSuffix(key, ".provider") && c.Provider == value || strings.HasSuffix(key, ".model") && c.Model == value
	}) {
		return ""
	}
	return g.who + " may choose only models that the operator lists in models.default, models.fallback or models.phases"
}

// refuseEffort rejects more reasoning than the operator has agreed to pay for.
func (g *guard) refuseEffort(value any, named []Choice) string {
	if g.limits || value == "" || value == "low" || slices.ContainsFunc(named, func(c Choice) bool { return c.Effort == value }) {
		return ""
	}
	return g.who + " may choose only low, or an effort that the operator sets in models.default, models.fallback or models.phases"
}

// refuseHosts rejects hosts that are not allowed.
func (g *guard) refuseHosts(value any, allowed []string, where string) string {
	open, err := proxy.ParseHosts(allowed)
	if err != nil {
		return "the operator's hosts are invalid: " + err.Error()
	}
	for _, host := range texts(value) {
		wanted, err := proxy.ParseHosts([]string{host})
		if err == nil && !open.Covers(wanted) { // an invalid host is reported during validation
			return fmt.Sprintf("%s may not open the network to %q; only the operator may do so, %s", g.who, host, where)
		}
	}
	return ""
}

// refuseImage rejects an image that the operator does not allow.
func (g *guard) refuseImage(value any) string {
	name, _ := value.(string)
	if name == "" || g.base.AllowsImage(name) {
		return ""
	}
	return g.who + " may choose only images that the operator allows in execution.sandbox.docker.images"
}

// texts returns the entries of a list.
func texts(list any) (out []string) {
	values, _ := list.([]any)
	for _, v := range values {
		if s, ok := v.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// sameName finds the operator's list entry with the same name, to compare their permissions.
func sameName(entry, list any) any {
	e, _ := entry.(map[string]any)
	all, _ := list.([]any)
	for _, other := range all {
		if o, ok := other.(map[string]any); ok && e["name"] != nil && o["name"] == e["name"] {
			return other
		}
	}
	return nil
}

// ofLimits are the trust values that allow lowering a limit but not raising it.
var ofLimits = []string{"lower", "limit", "timeout"}

// strictness lists the values of settings that a repository may tighten, strictest first. Any other
// value is rejected during validation.
var strictness = []string{"enforce", "on", "policy", "ask", "report", "warn", "continue", "off", "strict", "default", "permissive", GateOff, ApproverNotAuthor, ApproverAnyone}

func number(v any) int64 {
	r := reflect.ValueOf(v)
	if !r.IsValid() || !r.CanInt() {
		return 0
	}
	return r.Int()
}

func show(v any) string { return (&spec{}).showValue(v) }

// reasons explain why a repository may not change a section.
var reasons = [][2]string{
	{"execution.sandbox", "the sandbox protects the operator's host"},
	{"environment.", "only the operator decides what is stored and trusted on the worker's host"},
	{"verification.databases", "only the operator decides which directories of the worker's host commands can read"},
	{"git.", "only the operator decides where changes are pushed"},
	{"gate.", "the gate protects the operator and others from changes"},
	{"deliberation", "it affects what the operator pays"},
	{"models.", "providers, keys and budgets belong to the operator"},
	{"triggers", "what creates runs is decided by the operator"},
	{"notifications", "only the operator decides who is notified"},
	{"forges", "credentials and the services that they are sent to belong to the operator"},
	{"artifacts", "only the operator decides where data is stored"},
	{"retention", "only the operator decides what is deleted"},
	{"logging", "it affects the operator's hosts"},
	{"server", "it affects the operator's hosts"},
	{"temporal", "it affects the operator's hosts"},
	{"worker", "it affects the operator's hosts"},
	{"database", "it affects the operator's hosts"},
}

func reasonFor(key string) string {
	why := "only the operator may set it"
	for _, r := range reasons {
		if strings.HasPrefix(key, r[0]) {
			why = r[1]
			break
		}
	}
	return why
}
