package buildfiles

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/pin/testfile"
)

// rgptSettings judges the repository's own settings of this program.
func rgptSettings(c *Change) {
	before, after := settingsIn(c.Before), settingsIn(c.After)
	if before == nil || after == nil && c.Exists {
		c.Edit("", "it cannot be read")
		return
	}
	for _, k := range slices.Sorted(maps.Keys(after)) {
		if before[k] != after[k] {
			compareSetting(c, k, before[k], after[k])
		}
	}
	for _, k := range slices.Sorted(maps.Keys(before)) {
		if _, ok := after[k]; !ok {
			removedSetting(c, k, before[k])
		}
	}
}

// compareSetting judges one of these settings.
func compareSetting(c *Change, k, was, is string) {
	last := k[strings.LastIndexByte(k, '.')+1:]
	switch last {
	case "enabled", "auto_detect":
		if is == "false" {
			c.Exclude(last, k+" is turned off")
			return
		}
	case "require_tests":
		if was == "true" {
			c.Exclude(last, k+" is turned off")
			return
		}
	case "command":
		c.Command(k, was, is)
		return
	case "max_major", "max_medium":
		old, _ := strconv.Atoi(was)
		if limit, _ := strconv.Atoi(is); limit > old && (was != "" || last != "max_medium" || limit > 10) {
			c.Exclude(last, k+" now allows more findings")
			return
		}
	case "severity":
		if was == "" {
			was = defaultSeverity(k)
		}
		if slices.Index(contract.Severities(), contract.Severity(is)) > slices.Index(contract.Severities(), contract.Severity(was)) {
			c.Exclude(last, k+" now lowers the severity of findings")
			return
		}
	}
	if c.Existed {
		c.Edit(last, k+" is changed")
	}
}

// defaultSeverity is the severity of a stage's findings.
func defaultSeverity(k string) string {
	switch {
	case strings.HasPrefix(k, "verification.lint."):
		return string(contract.SeverityMinor)
	case strings.HasPrefix(k, "verification.security."):
		return string(contract.SeverityMedium)
	default:
		return string(contract.SeverityMajor)
	}
}

func removedSetting(c *Change, k, was string) {
	last := k[strings.LastIndexByte(k, '.')+1:]
	gone := last == "command" || was == "true" && (last == "require_tests" || last == "enabled") || last == "name" && strings.Contains(k, "custom")
	if gone {
		c.Exclude("", k+" is gone: "+was)
		return
	}
	c.Edit("", k+" is gone")
}

// settingsIn returns the settings of verification and findings by path, or nil if the file is not
// YAML. The file is read as a tree: if decoded into values, a small file could use unlimited memory
// through repeated keys or nested aliases.
func settingsIn(data []byte) map[string]string {
	var doc yaml.Node
	if yaml.Unmarshal(data, &doc) != nil {
		return nil
	}
	l := settingsReader{out: map[string]string{}, left: maxSettingNodes}
	if len(doc.Content) == 0 { // an empty file
		return l.out
	}
	top := doc.Content[0].Content
	if doc.Content[0].Kind != yaml.MappingNode {
		return nil
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(top); i += 2 {
		name := top[i].Value
		l.wrong = l.wrong || seen[name] || name == mergeKey
		seen[name] = true
		if name == "verification" || name == "findings" {
			l.add(name, top[i+1], 0)
		}
	}
	if l.wrong {
		return nil
	}
	return l.out
}

// mergeKey merges the keys of another mapping, which the settings do not allow.
const mergeKey = "<<"

// maxSettings limits the number of settings compared in a file.
const maxSettings = 500

// maxSettingNodes limits the number of values read from a settings file; values behind aliases
// count each time.
const maxSettingNodes = 20_000

type settingsReader struct {
	out   map[string]string
	left  int
	wrong bool // a key occurs twice
}

func (l *settingsReader) add(at string, n *yaml.Node, depth int) {
	l.left--
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n == nil || l.left < 0 || depth > 8 || len(l.out) > maxSettings {
		return
	}
	switch n.Kind {
	case yaml.MappingNode:
		seen := map[string]bool{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i].Value
			l.wrong = l.wrong || seen[key] || key == mergeKey
			seen[key] = true
			l.add(at+"."+key, n.Content[i+1], depth+1)
		}
	case yaml.SequenceNode:
		for i, x := range n.Content {
			id := strconv.Itoa(i)
			if name := nameIn(x); name != "" {
				id = name
			}
			l.add(at+"["+testfile.Clean(id)+"]", x, depth+1)
		}
	case yaml.ScalarNode:
		if n.Tag != "!!null" {
			l.out[at] = n.Value
			if n.Tag == "!!bool" {
				l.out[at] = strings.ToLower(n.Value)
			}
		}
	case yaml.DocumentNode, yaml.AliasNode: // documents are not nested, and aliases were followed above
	}
}

// nameIn returns the value of the key name in a mapping.
func nameIn(n *yaml.Node) string {
	if n.Kind != yaml.MappingNode {
		return ""
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == "name" {
			return n.Content[i+1].Value
		}
	}
	return ""
}
